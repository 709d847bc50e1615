package logic

import (
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// debugNames has, for each kind, the kind's name and the names of the kind's fields, in the order
// Text, A, B, as Rust's {:?} prints them.
var debugNames = [numHostErrors]struct {
	name       string
	text, a, b string
	bytes      bool // B is printed as a size with its unit in words
}{
	BadUTF16:                            {name: "BadUTF16"},
	BadUTF8:                             {name: "BadUTF8"},
	GasExceeded:                         {name: "GasExceeded"},
	GasLimitExceeded:                    {name: "GasLimitExceeded"},
	BalanceExceeded:                     {name: "BalanceExceeded"},
	EmptyMethodName:                     {name: "EmptyMethodName"},
	GuestPanic:                          {name: "GuestPanic", text: "panic_msg"},
	IntegerOverflow:                     {name: "IntegerOverflow"},
	InvalidPromiseIndex:                 {name: "InvalidPromiseIndex", a: "promise_idx"},
	CannotAppendActionToJointPromise:    {name: "CannotAppendActionToJointPromise"},
	CannotReturnJointPromise:            {name: "CannotReturnJointPromise"},
	CannotSetRefundToOnJointPromise:     {name: "CannotSetRefundToOnJointPromise"},
	InvalidPromiseResultIndex:           {name: "InvalidPromiseResultIndex", a: "result_idx"},
	InvalidRegisterID:                   {name: "InvalidRegisterId", a: "register_id"},
	MemoryAccessViolation:               {name: "MemoryAccessViolation"},
	InvalidActionIndex:                  {name: "InvalidActionIndex", a: "receipt_index", b: "action_index"},
	InvalidAccountID:                    {name: "InvalidAccountId"},
	InvalidMethodName:                   {name: "InvalidMethodName"},
	InvalidPublicKey:                    {name: "InvalidPublicKey"},
	ProhibitedInView:                    {name: "ProhibitedInView", text: "method_name"},
	NumberOfLogsExceeded:                {name: "NumberOfLogsExceeded", b: "limit"},
	KeyLengthExceeded:                   {name: "KeyLengthExceeded", a: "length", b: "limit"},
	ValueLengthExceeded:                 {name: "ValueLengthExceeded", a: "length", b: "limit"},
	TotalLogLengthExceeded:              {name: "TotalLogLengthExceeded", a: "length", b: "limit"},
	NumberPromisesExceeded:              {name: "NumberPromisesExceeded", a: "number_of_promises", b: "limit"},
	NumberInputDataDependenciesExceeded: {name: "NumberInputDataDependenciesExceeded", a: "number_of_input_data_dependencies", b: "limit"},
	ReturnedValueLengthExceeded:         {name: "ReturnedValueLengthExceeded", a: "length", b: "limit"},
	ContractSizeExceeded:                {name: "ContractSizeExceeded", a: "size", b: "limit"},
	Deprecated:                          {name: "Deprecated", text: "method_name"},
	ECRecoverError:                      {name: "ECRecoverError", text: "msg"},
	AltBn128InvalidInput:                {name: "AltBn128InvalidInput", text: "msg"},
	Ed25519VerifyInvalidInput:           {name: "Ed25519VerifyInvalidInput", text: "msg"},
	P256VerifyInvalidInput:              {name: "P256VerifyInvalidInput", text: "msg"},
	MLDSAVerifyInvalidInput:             {name: "MlDsaVerifyInvalidInput", text: "msg"},
	BLS12381InvalidInput:                {name: "BLS12381InvalidInput", text: "msg"},
	YieldPayloadLength:                  {name: "YieldPayloadLength", a: "length", b: "limit"},
	DataIDMalformed:                     {name: "DataIdMalformed"},
	YieldIDMalformed:                    {name: "YieldIdMalformed"},
	RecordedStorageExceeded:             {name: "RecordedStorageExceeded", b: "limit", bytes: true},
	ContractCodeHashMalformed:           {name: "ContractCodeHashMalformed"},
	DataEntryAlreadyExists:              {name: "DataEntryAlreadyExists"},
}

// Debug returns the error as Rust's {:?} prints it: GuestPanic { panic_msg: "oh" }.
func (e *HostError) Debug() string {
	d := &debugNames[e.Kind]
	var fields []string
	if d.text != "" {
		fields = append(fields, d.text+": "+primitives.RustDebug(e.Text))
	}
	if d.a != "" {
		fields = append(fields, fmt.Sprintf("%s: %d", d.a, e.A))
	}
	switch {
	case d.b != "" && d.bytes:
		fields = append(fields, d.b+": "+byteSize(e.B))
	case d.b != "":
		fields = append(fields, fmt.Sprintf("%s: %d", d.b, e.B))
	}
	if fields == nil {
		return d.name
	}
	return d.name + " { " + strings.Join(fields, ", ") + " }"
}

// DebugExecution returns the reason of a failed call as Rust's {:?} prints nearcore's VM error,
// which the RPC method query shows. why is the error that the chain stores; why has the tag
// CallExecution and only a text. cause is CallOutcome.Cause.
func DebugExecution(why *primitives.FunctionCallError, cause error) string {
	f := ExecutionFailure(why, cause)
	if host, ok := cause.(*HostError); ok {
		return f.Error + "(" + host.Debug() + ")"
	}
	if f.Kind != "" {
		return f.Error + "(" + f.Kind + ")"
	}
	text := strings.TrimPrefix(strings.TrimPrefix(why.Message, linkText), loadingText)
	return f.Error + " { msg: " + primitives.RustDebug(text) + " }"
}

// ExecutionFailure names the reason of a failed call. why is the error that the chain stores; why has
// the tag CallExecution and only a text. cause is CallOutcome.Cause.
func ExecutionFailure(why *primitives.FunctionCallError, cause error) action.CallFailure {
	if host, ok := cause.(*HostError); ok {
		return action.CallFailure{Error: primitives.CallHost.String(), Kind: debugNames[host.Kind].name}
	}
	switch {
	case strings.HasPrefix(why.Message, linkText):
		return action.CallFailure{Error: primitives.CallLink.String()}
	case strings.HasPrefix(why.Message, loadingText):
		return action.CallFailure{Error: "LoadingError"}
	}
	for trap, text := range trapTexts {
		if why.Message == trapText+text {
			return action.CallFailure{Error: primitives.CallWasmTrap.String(), Kind: primitives.WasmTrap(trap).String()}
		}
	}
	return action.CallFailure{Error: primitives.CallWasmUnknown.String()}
}
