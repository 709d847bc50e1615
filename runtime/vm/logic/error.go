package logic

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// HostErrorKind is the kind of a HostError.
type HostErrorKind uint8

// The kinds (nearcore runtime/near-vm-runner/src/logic/errors.rs HostError), each with the fields
// of HostError that it uses.
const (
	_ HostErrorKind = iota
	BadUTF16
	BadUTF8
	GasExceeded
	GasLimitExceeded
	BalanceExceeded
	EmptyMethodName
	GuestPanic // Text: the message
	IntegerOverflow
	InvalidPromiseIndex // A: the index
	CannotAppendActionToJointPromise
	CannotReturnJointPromise
	CannotSetRefundToOnJointPromise
	InvalidPromiseResultIndex // A: the index
	InvalidRegisterID         // A: the register
	MemoryAccessViolation
	InvalidActionIndex // A: the receipt, B: the action
	InvalidAccountID
	InvalidMethodName
	InvalidPublicKey
	ProhibitedInView                    // Text: the function
	NumberOfLogsExceeded                // B: the limit
	KeyLengthExceeded                   // A: the length, B: the limit
	ValueLengthExceeded                 // A: the length, B: the limit
	TotalLogLengthExceeded              // A: the length, B: the limit
	NumberPromisesExceeded              // A: the number, B: the limit
	NumberInputDataDependenciesExceeded // A: the number, B: the limit
	ReturnedValueLengthExceeded         // A: the length, B: the limit
	ContractSizeExceeded                // A: the size, B: the limit
	Deprecated                          // Text: the function
	ECRecoverError                      // Text: the msg
	AltBn128InvalidInput                // Text: the msg
	Ed25519VerifyInvalidInput           // Text: the msg
	P256VerifyInvalidInput              // Text: the msg
	MLDSAVerifyInvalidInput             // Text: the msg
	BLS12381InvalidInput                // Text: the msg
	YieldPayloadLength                  // A: the length, B: the limit
	DataIDMalformed
	YieldIDMalformed
	RecordedStorageExceeded // B: the limit in bytes
	ContractCodeHashMalformed
	DataEntryAlreadyExists

	numHostErrors
)

// HostError is an error of a host function that ends the call. Clients see the text of a HostError.
type HostError struct {
	Kind HostErrorKind
	A, B uint64
	Text string
}

// fixedTexts has nearcore's texts of the error kinds without fields. A kind with fields has an
// empty text here.
var fixedTexts = [numHostErrors]string{
	BadUTF16:                         "String encoding is bad UTF-16 sequence.",
	BadUTF8:                          "String encoding is bad UTF-8 sequence.",
	GasExceeded:                      "Exceeded the prepaid gas.",
	GasLimitExceeded:                 "Exceeded the maximum amount of gas allowed to burn per contract.",
	BalanceExceeded:                  "Exceeded the account balance.",
	EmptyMethodName:                  "Tried to call an empty method name.",
	IntegerOverflow:                  "Integer overflow.",
	CannotAppendActionToJointPromise: "Actions can only be appended to non-joint promise.",
	CannotReturnJointPromise:         "Returning joint promise is currently prohibited.",
	CannotSetRefundToOnJointPromise:  "Setting refund_to on a joint promise is prohibited.",
	MemoryAccessViolation:            "Accessed memory outside the bounds.",
	InvalidAccountID:                 "VM Logic returned an invalid account id",
	InvalidMethodName:                "VM Logic returned an invalid method name",
	InvalidPublicKey:                 "VM Logic provided an invalid public key",
	DataIDMalformed:                  "yield resumption token is malformed",
	YieldIDMalformed:                 "yield id is malformed",
	ContractCodeHashMalformed:        "contract code hash is malformed",
	DataEntryAlreadyExists:           "Data entry for given key already exists",
}

// Error returns nearcore's text of the error (errors.rs:528).
func (e *HostError) Error() string {
	if e.Kind < numHostErrors && fixedTexts[e.Kind] != "" {
		return fixedTexts[e.Kind]
	}
	switch e.Kind {
	case GuestPanic:
		return "Smart contract panicked: " + e.Text
	case InvalidPromiseIndex:
		return fmt.Sprintf("%d does not correspond to existing promises", e.A)
	case InvalidPromiseResultIndex:
		return fmt.Sprintf("Accessed invalid promise result index: %d", e.A)
	case InvalidRegisterID:
		return fmt.Sprintf("Accessed invalid register id: %d", e.A)
	case InvalidActionIndex:
		return fmt.Sprintf("Action %d in receipt %d does not exist or has the wrong type of action.", e.B, e.A)
	case ProhibitedInView:
		return e.Text + " is not allowed in view calls"
	case NumberOfLogsExceeded:
		return fmt.Sprintf("The number of logs will exceed the limit %d", e.B)
	case KeyLengthExceeded:
		return e.exceeds("length of a storage key")
	case ValueLengthExceeded:
		return e.exceeds("length of a storage value")
	case TotalLogLengthExceeded:
		return e.exceeds("length of a log message")
	case NumberPromisesExceeded:
		return e.exceeds("number of promises within a FunctionCall")
	case NumberInputDataDependenciesExceeded:
		return e.exceeds("number of input data dependencies")
	case ReturnedValueLengthExceeded:
		return e.exceeds("length of a returned value")
	case ContractSizeExceeded:
		return e.exceeds("size of a contract code in DeployContract action")
	case Deprecated:
		return "Attempted to call deprecated host function " + e.Text
	case ECRecoverError:
		return "ECDSA recover error: " + e.Text
	case AltBn128InvalidInput:
		return "AltBn128 invalid input: " + e.Text
	case Ed25519VerifyInvalidInput:
		return "ED25519 signature verification error: " + e.Text
	case P256VerifyInvalidInput:
		return "P256 signature verification error: " + e.Text
	case MLDSAVerifyInvalidInput:
		return "ML-DSA-65 signature verification error: " + e.Text
	case BLS12381InvalidInput:
		return "BLS12-381 invalid input: " + e.Text
	case YieldPayloadLength:
		return fmt.Sprintf("Yield resume payload is %d bytes which exceeds the %d byte limit", e.A, e.B)
	case RecordedStorageExceeded:
		return "Size of the recorded trie storage proof has exceeded the allowed limit (" + byteSize(e.B) + ")"
	}
	panic(fmt.Sprintf("logic: no text for host error %d", e.Kind))
}

func (e *HostError) exceeds(what string) string {
	return fmt.Sprintf("The %s %d exceeds the limit %d", what, e.A, e.B)
}

// Is returns whether target is an equal HostError.
func (e *HostError) Is(target error) bool {
	t, ok := target.(*HostError)
	return ok && *t == *e
}

// byteSize formats n as the crate bytesize does: with one decimal, in the largest decimal unit that
// is at most n, e.g. "4.0 MB".
func byteSize(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	unit, exp := uint64(1000), 0
	for n/unit >= 1000 {
		unit *= 1000
		exp++
	}
	whole, rest := n/unit, n%unit
	tenths := (rest*10 + unit/2) / unit // cannot overflow: rest is below 10^18
	whole, tenths = whole+tenths/10, tenths%10
	return strconv.FormatUint(whole, 10) + "." + strconv.FormatUint(tenths, 10) + " " + "KMGTPE"[exp:exp+1] + "B"
}

// fixedErrors are the errors without fields. Each of these errors exists once, so that a failing
// call does not allocate.
var fixedErrors = func() (all [numHostErrors]HostError) {
	for k := range all {
		all[k].Kind = HostErrorKind(k)
	}
	return all
}()

func fail(k HostErrorKind) error { return &fixedErrors[k] }

func limitError(k HostErrorKind, value, limit uint64) error {
	return &HostError{Kind: k, A: value, B: limit}
}

// Prefixes of the texts of traps, link errors and loading errors.
const (
	trapText    = "WebAssembly trap: "
	linkText    = "Link Error: "
	loadingText = "Loading Error: "
)

// trapTexts are nearcore's texts of traps (errors.rs:474).
var trapTexts = [...]string{
	primitives.TrapUnreachable:                    "An `unreachable` opcode was executed.",
	primitives.TrapIncorrectCallIndirectSignature: "Call indirect incorrect signature trap.",
	primitives.TrapMemoryOutOfBounds:              "Memory out of bounds trap.",
	primitives.TrapCallIndirectOOB:                "Call indirect out of bounds trap.",
	primitives.TrapIllegalArithmetic:              "An arithmetic exception, e.g. divided by zero.",
	primitives.TrapMisalignedAtomicAccess:         "Misaligned atomic access trap.",
	primitives.TrapIndirectCallToNull:             "Indirect call to null.",
	primitives.TrapStackOverflow:                  "Stack overflow.",
	primitives.TrapGeneric:                        "Generic trap.",
}

// Errors of calls in the form in which the chain stores them. For a host error, a trap, a link
// error or a loading error, the chain stores only the text (nearcore
// runtime/runtime/src/conversions.rs).

// Execution returns the error of a call that a host function ended.
func (e *HostError) Execution() *primitives.FunctionCallError { return execution(e.Error()) }

// TrapError returns the error of a call that trapped.
func TrapError(t primitives.WasmTrap) *primitives.FunctionCallError {
	return execution(trapText + trapTexts[t])
}

// LinkError returns the error of a module with an import that does not exist.
func LinkError(text string) *primitives.FunctionCallError { return execution(linkText + text) }

// LoadingError returns the error of a module that compiles but is too large to run.
func LoadingError(text string) *primitives.FunctionCallError {
	return execution(loadingText + text)
}

func execution(text string) *primitives.FunctionCallError {
	return &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: text}
}
