package rpc

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/troupe-chain/troupe/primitives/view"
)

// Fault is a failure that a method declares. The error object of the reply is a HANDLER_ERROR with
// this name.
type Fault struct {
	Name   string
	Fields bool // true: the cause in the error object has a member "info", which may be {}
	Status int  // HTTP status of the reply; 0: 200
}

// The faults of all methods (nearcore chain/jsonrpc-primitives/src/types).
var (
	UnknownBlock         = &Fault{Name: "UNKNOWN_BLOCK", Fields: true}
	NotSyncedYet         = &Fault{Name: "NOT_SYNCED_YET"}
	InvalidShardID       = &Fault{Name: "INVALID_SHARD_ID", Fields: true}
	UnknownChunk         = &Fault{Name: "UNKNOWN_CHUNK", Fields: true}
	NoSyncedBlocks       = &Fault{Name: "NO_SYNCED_BLOCKS"}
	UnavailableShard     = &Fault{Name: "UNAVAILABLE_SHARD", Fields: true}
	GarbageCollected     = &Fault{Name: "GARBAGE_COLLECTED_BLOCK", Fields: true}
	UnknownAccount       = &Fault{Name: "UNKNOWN_ACCOUNT", Fields: true}
	NoContractCode       = &Fault{Name: "NO_CONTRACT_CODE", Fields: true}
	TooLargeState        = &Fault{Name: "TOO_LARGE_CONTRACT_STATE", Fields: true}
	UnknownAccessKey     = &Fault{Name: "UNKNOWN_ACCESS_KEY", Fields: true}
	TooManyAccessKeys    = &Fault{Name: "TOO_MANY_ACCESS_KEYS", Fields: true}
	UnknownGasKey        = &Fault{Name: "UNKNOWN_GAS_KEY", Fields: true}
	ContractExecution    = &Fault{Name: "CONTRACT_EXECUTION_ERROR", Fields: true}
	NoGlobalContractCode = &Fault{Name: "NO_GLOBAL_CONTRACT_CODE", Fields: true}
	InvalidTransaction   = &Fault{Name: "INVALID_TRANSACTION", Fields: true}
	DoesNotTrackShard    = &Fault{Name: "DOES_NOT_TRACK_SHARD"}
	RequestRouted        = &Fault{Name: "REQUEST_ROUTED", Fields: true}
	UnknownTransaction   = &Fault{Name: "UNKNOWN_TRANSACTION", Fields: true}
	Timeout              = &Fault{Name: "TIMEOUT_ERROR", Status: http.StatusRequestTimeout}
	TxTimeout            = &Fault{Name: "TIMEOUT_ERROR", Fields: true, Status: http.StatusRequestTimeout} // tx methods
	NodeIsSyncing        = &Fault{Name: "NODE_IS_SYNCING"}
	NoNewBlocks          = &Fault{Name: "NO_NEW_BLOCKS", Fields: true}
	EpochOutOfBounds     = &Fault{Name: "EPOCH_OUT_OF_BOUNDS", Fields: true}
	UnknownEpoch         = &Fault{Name: "UNKNOWN_EPOCH"}
	NoValidatorInfo      = &Fault{Name: "VALIDATOR_INFO_UNAVAILABLE"}
	InconsistentState    = &Fault{Name: "INCONSISTENT_STATE", Fields: true}
	NotConfirmed         = &Fault{Name: "NOT_CONFIRMED", Fields: true}
	UnknownOutcome       = &Fault{Name: "UNKNOWN_TRANSACTION_OR_RECEIPT", Fields: true}
	CannotMine           = &Fault{Name: "CANNOT_MINE", Fields: true}
	CannotPatch          = &Fault{Name: "CANNOT_PATCH", Fields: true}
	CannotFastForward    = &Fault{Name: "CANNOT_FAST_FORWARD", Fields: true}
	SandboxRefused       = &Fault{Name: "SANDBOX_REFUSED", Fields: true}
	UnknownReceipt       = &Fault{Name: "UNKNOWN_RECEIPT", Fields: true}
	ProofUnavailable     = &Fault{Name: "PROOF_UNAVAILABLE", Fields: true}
	DepthExceeded        = &Fault{Name: "DEPTH_EXCEEDED", Fields: true}
	OriginUnsupported    = &Fault{Name: "UNSUPPORTED", Fields: true}
	OutcomesNotStored    = &Fault{Name: "OUTCOMES_NOT_STORED"}
	WindowTooLarge       = &Fault{Name: "WINDOW_TOO_LARGE", Fields: true}
	MalformedHint        = &Fault{Name: "MALFORMED_HINT", Fields: true}
	BudgetExceeded       = &Fault{Name: "BUDGET_EXCEEDED", Fields: true}
	TooFarAhead          = &Fault{Name: "TOO_FAR_AHEAD", Fields: true}
)

// failure is an occurrence of a fault. If fault is nil, the failure is an INTERNAL_ERROR with text
// as its message.
type failure struct {
	fault *Fault
	info  []byte              // members of the JSON object "info", without the braces; empty: {}
	more  func([]byte) []byte // appends the rest of info; nil: nothing to append
	data  []byte              // JSON of the error's member "data"
	text  string              // text for logs; of an INTERNAL_ERROR, the client gets the text too
	cause error               // cause of an INTERNAL_ERROR; nil: unknown
	// refusal is the HTTP status if a limit rejected the request; 0: no limit rejected it.
	refusal int
}

func (f *failure) Error() string {
	if f.fault == nil {
		return "INTERNAL_ERROR: " + f.text
	}
	return f.fault.Name + ": " + f.text
}

// because makes a failure whose data is text. info has the members of the failure's info object as
// JSON.
func (f *Fault) because(text string, info []byte) error {
	return &failure{fault: f, info: info, data: view.AppendString(nil, text), text: text}
}

// asCause makes a failure whose data repeats the cause, as the data of some methods' failures does.
func (f *Fault) asCause(info []byte) error {
	e := &failure{fault: f, info: info, text: string(info)}
	e.data = e.appendCause(nil)
	return e
}

// The texts that precede an internal error. Which one depends on the method (nearcore
// chain/jsonrpc/src).
const (
	reachedLimits = "The node reached its limits. Try again later. More details: "
	internalError = "Internal error: "
)

// maxInternal is the maximum length of the text of an INTERNAL_ERROR, in bytes. Every panic message
// of a contract is shorter than maxInternal.
const maxInternal = 64 << 10

// internal makes an INTERNAL_ERROR from err. prefix is only in the data of the INTERNAL_ERROR. If
// err is a failure already, internal returns it unchanged.
func internal(prefix string, err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	text := clipTo(reason(err), maxInternal)
	return &failure{text: text, data: view.AppendString(nil, prefix+text), cause: err}
}

// internalAsCause is internal for methods whose data repeats the cause.
func internalAsCause(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	f = &failure{text: clipTo(reason(err), maxInternal), cause: err}
	f.data = f.appendCause(nil)
	return f
}

// appendCause appends the cause object: {"info", "name"}, or {"name"} for a fault without fields.
func (f *failure) appendCause(b []byte) []byte {
	switch {
	case f.fault == nil:
		b = view.AppendString(append(b, `{"info":{"error_message":`...), f.text)
		return append(b, `},"name":"INTERNAL_ERROR"}`...)
	case f.fault.Fields:
		b = append(append(b, `{"info":{`...), f.info...)
		if f.more != nil {
			b = f.more(b)
		}
		b = append(b, `},`...)
	default:
		b = append(b, '{')
	}
	return append(append(append(b, `"name":"`...), f.fault.Name...), `"}`...)
}

// appendError appends the error object of the envelope.
func (f *failure) appendError(b []byte) []byte {
	name := "HANDLER_ERROR"
	if f.fault == nil {
		name = "INTERNAL_ERROR"
	}
	b = append(append(append(b, `{"name":"`...), name...), `","cause":`...)
	b = append(f.appendCause(b), `,"code":-32000,"message":"Server error","data":`...)
	return append(append(b, f.data...), '}')
}

// status returns the HTTP status of a failure.
func (f *failure) status() int {
	switch {
	case f.refusal != 0:
		return f.refusal
	case f.fault == nil:
		return http.StatusInternalServerError
	case f.fault.Status != 0:
		return f.fault.Status
	}
	return http.StatusOK
}

// lookup returns the LookupError inside err.
func lookup(err error) (*view.LookupError, bool) {
	var e *view.LookupError
	ok := errors.As(err, &e)
	return e, ok
}

// missingBlock describes an unknown block as nearcore's database does: "BLOCK HEIGHT: 7" for a
// height, or kind followed by the hash.
func missingBlock(e *view.LookupError, kind string) string {
	if e.Kind == view.ErrUnknownHeight {
		return "BLOCK HEIGHT: " + strconv.FormatUint(uint64(e.Height), 10)
	}
	return kind + ": " + e.Hash.String()
}

const (
	notFound     = "DB Not Found Error: "
	causeUnknown = " \n Cause: Unknown"
)

// blockFault maps an error about a block to the fault of methods such as block, chunk and
// gas_price. ok is false for an error that is not about a block.
func blockFault(err error, kind string) (fault error, ok bool) {
	e, ok := lookup(err)
	if !ok {
		return nil, false
	}
	switch e.Kind {
	case view.ErrUnknownHeight, view.ErrUnknownBlock:
		return UnknownBlock.because(notFound+missingBlock(e, kind)+causeUnknown, nil), true
	case view.ErrNotSynced:
		return NotSyncedYet.because("There are no fully synchronized blocks yet", nil), true
	}
	return nil, false
}

// member appends a member to an info object. value is JSON.
func member(info []byte, name string, value []byte) []byte {
	if len(info) > 0 {
		info = append(info, ',')
	}
	return append(append(append(append(info, '"'), name...), '"', ':'), value...)
}
