package rpc

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// callFault is the failure of a call in the contract. Method query shows it as a success with an
// error member. All methods except query show it as CONTRACT_EXECUTION_ERROR.
type callFault struct {
	*failure
	result *view.CallResult
}

// Unwrap returns the failure, for errors.As.
func (e *callFault) Unwrap() error { return e.failure }

// answerCall appends the result of a view call.
func answerCall(c *call, b []byte, s State, q *queryParams, at *view.At) ([]byte, error) {
	out, err := c.node.CallFunction(at.Hash, &view.Call{
		Account: q.account, Method: q.method, Args: q.args, Client: c.x.fairClient(), Gone: func() bool { return hungUp(c.conn) },
	})
	switch {
	case err != nil:
		return b, err
	case out == nil: // the account does not exist; needAccount returns the fault
		if _, err = needAccount(s, q.account, at); err == nil {
			err = textError("account " + string(q.account) + " is gone")
		}
		return b, err
	case out.Err != nil:
		info := member(atInfo(nil, at), "vm_error", out.Err.AppendJSON(nil))
		if len(out.Missing) > 0 { // missing_imports is an extension; nearcore does not return it
			info = member(info, "missing_imports", view.AppendMissingImports(nil, out.Missing))
		}
		return b, &callFault{result: out, failure: ContractExecution.because("Function call returned an error: "+callDebug(out, true),
			info).(*failure)}
	}
	if b, err = c.reserve(b, view.CallSize(out)); err != nil {
		return b, err
	}
	return view.AppendQueryCall(b, out.Result, out.Logs, at), nil
}

// legacyQueryError replaces the two errors that method query shows as successes. These replies are
// for clients that do not know structured errors (nearcore chain/jsonrpc/src/lib.rs:362).
func legacyQueryError(b, out []byte, s State, q *queryParams, err error) ([]byte, error) {
	if err == nil {
		return out, nil
	}
	at := s.At()
	var called *callFault
	if errors.As(err, &called) {
		text := "wasm execution failed with error: " + callDebug(called.result, false)
		return view.AppendQueryError(b, text, called.result.Logs, &at), nil
	}
	var f *failure
	if errors.As(err, &f) && f.fault == UnknownAccessKey {
		return view.AppendQueryError(b, "access key "+q.key.String()+" does not exist while viewing", nil, &at), nil
	}
	return b, internal(reachedLimits, err)
}

// callDebug returns a call's error as Rust's {:?} writes it. If protocol is set, the result has the
// form of protocol errors, in which an account id is AccountId("x"). Otherwise the result has the
// form of VM errors, which method query shows: an account id is "x", and host errors, traps and the
// remaining kinds are distinguished.
func callDebug(out *view.CallResult, protocol bool) string {
	e, text := out.Err, primitives.RustDebug
	switch e.Tag {
	case primitives.CallMethodResolve:
		return "MethodResolveError(" + e.Method.String() + ")"
	case primitives.CallExecution:
		if !protocol {
			return out.Debug
		}
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
