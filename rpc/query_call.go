package rpc

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// callFailure is a contract call that failed in the contract: method query shows it as a success with an error member,
// the others as CONTRACT_EXECUTION_ERROR.
type callFailure struct {
	why  *primitives.FunctionCallError
	logs []string
}

func (e *callFailure) Error() string { return e.why.Error() }

// answerCall runs a method as a read. What can be told without executing wasm is told here.
func answerCall(c *call, b []byte, s State, q *queryParams, at *view.At) ([]byte, error) {
	account, err := needAccount(s, q.account, at)
	if err != nil {
		return b, err
	}
	code, err := contractCode(s, q.account, account)
	if err != nil {
		return b, err
	}
	var result []byte
	var logs []string
	var failed *primitives.FunctionCallError
	switch {
	case code == nil:
		failed = &primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &primitives.CompilationError{
			Tag: primitives.CompilationCodeDoesNotExist, AccountID: q.account}}
	case q.method == "":
		failed = &primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodEmptyName}
	case c.opts.Call == nil:
		failed = &primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &primitives.CompilationError{
			Tag: primitives.CompilationWasm, Message: view.ErrContractsUnsupported.Error()}}
	default:
		result, logs, failed, err = c.opts.Call(s, q.account, q.method, q.args)
	}
	switch {
	case err != nil:
		return b, err
	case failed != nil:
		why := &callFailure{failed, logs}
		return b, &callFault{failure: ContractExecution.because("Function call returned an error: "+callDebug(failed, true),
			member(atInfo(nil, at), "vm_error", failed.AppendJSON(nil))).(*failure), call: why}
	}
	return view.AppendQueryCall(b, result, logs, at), nil
}

// callFault is the structured form of a callFailure, which method query looks into.
type callFault struct {
	*failure
	call *callFailure
}

// Unwrap gives errors.As the failure.
func (e *callFault) Unwrap() error { return e.failure }

// legacyQueryError replaces the two errors that method query shows as successes, for clients from before there were
// structured errors (nearcore chain/jsonrpc/src/lib.rs:362).
func legacyQueryError(b, out []byte, s State, q *queryParams, err error) ([]byte, error) {
	if err == nil {
		return out, nil
	}
	at := s.At()
	var called *callFault
	if errors.As(err, &called) {
		text := "wasm execution failed with error: " + callDebug(called.call.why, false)
		return view.AppendQueryError(b, text, called.call.logs, &at), nil
	}
	var f *failure
	if errors.As(err, &f) && f.fault == UnknownAccessKey {
		return view.AppendQueryError(b, "access key "+q.key.String()+" does not exist while viewing", nil, &at), nil
	}
	return b, internal(reachedLimits, err)
}

// callDebug writes a call's error as Rust's {:?} does. In protocol errors an account id is AccountId("x"), in those of
// the VM, which method query shows, it is "x".
func callDebug(e *primitives.FunctionCallError, protocol bool) string {
	text := func(s string) string { return rustDebug([]byte(s)) }
	switch e.Tag {
	case primitives.CallMethodResolve:
		return "MethodResolveError(" + e.Method.String() + ")"
	case primitives.CallExecution:
		return "ExecutionError(" + text(e.Message) + ")"
	case primitives.CallCompilation:
		c := e.Compilation
		switch {
		case c.Tag == primitives.CompilationCodeDoesNotExist && protocol:
			return `CompilationError(CodeDoesNotExist { account_id: AccountId("` + string(c.AccountID) + `") })`
		case c.Tag == primitives.CompilationCodeDoesNotExist:
			return `CompilationError(CodeDoesNotExist { account_id: "` + string(c.AccountID) + `" })`
		case c.Tag == primitives.CompilationPrepare:
			return "CompilationError(PrepareError(" + c.Prepare.String() + "))"
		case protocol:
			return "CompilationError(WasmerCompileError { msg: " + text(c.Message) + " })"
		}
		return "CompilationError(WasmtimeCompileError { msg: " + text(c.Message) + " })"
	}
	return string(e.AppendJSON(nil))
}
