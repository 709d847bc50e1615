package primitives

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// The borsh form of errors, in which nodes exchange errors: a variant's tag, and the variant's
// fields in the order of nearcore's declarations. The code uses the tables of the JSON form.

// errBorsh is an error with a borsh form of its own.
type errBorsh interface {
	AppendBorsh(b []byte) []byte
	DecodeBorsh(r *borsh.Reader)
}

// inOrder returns the fields of a variant in the order of borsh; maybe marks the optional fields.
func (row *errRow[E]) inOrder(e *E) (out []errField, maybe []bool) {
	switch {
	case row.inner != nil:
		return []errField{{at: row.inner(e)}}, []bool{false}
	case row.fields == nil:
		return nil, nil
	}
	list := row.fields(e)
	if row.order == "" {
		return list, make([]bool, len(list))
	}
	absent := false
	for _, c := range row.order {
		if c == '?' {
			absent = true
			continue
		}
		out, maybe, absent = append(out, list[c-'0']), append(maybe, absent), false
	}
	return out, maybe
}

func appendErrorBorsh[E any](b []byte, rows []errRow[E], tag int, e *E) []byte {
	b = append(b, byte(tag))
	fields, maybe := rows[tag].inOrder(e)
	for i := range fields {
		b = appendErrField(b, fields[i].at, maybe[i])
	}
	return b
}

func decodeErrorBorsh[E any](r *borsh.Reader, enum string, rows []errRow[E], e *E) (tag int) {
	if tag = int(r.Byte()); tag >= len(rows) || rows[tag].name == "" {
		r.BadTag(enum, byte(tag))
		return 0
	}
	fields, maybe := rows[tag].inOrder(e)
	for i := range fields {
		decodeErrField(r, fields[i].at, maybe[i])
	}
	return tag
}

// appendErrField appends the value to which the pointer at points. If maybe is set, the value is an
// optional key.
func appendErrField(b []byte, at any, maybe bool) []byte {
	switch v := at.(type) {
	case *string:
		return borsh.AppendString(b, *v)
	case *uint16:
		return borsh.AppendUint16(b, *v)
	case **uint16:
		if *v == nil {
			return append(b, 0)
		}
		return borsh.AppendUint16(append(b, 1), **v)
	case *uint32:
		return borsh.AppendUint32(b, *v)
	case *ProtocolVersion:
		return borsh.AppendUint32(b, uint32(*v))
	case *uint64:
		return borsh.AppendUint64(b, *v)
	case *Nonce:
		return borsh.AppendUint64(b, uint64(*v))
	case *Gas:
		return borsh.AppendUint64(b, uint64(*v))
	case *json.Number:
		x, _ := strconv.ParseFloat(string(*v), 64) // 0 if it is not a number
		return borsh.AppendUint64(b, math.Float64bits(x))
	case *PublicKey:
		switch {
		case !maybe:
			return v.AppendBorsh(b)
		case *v == "":
			return append(b, 0)
		}
		return v.AppendBorsh(append(b, 1))
	case *AccountID:
		return v.AppendBorsh(b)
	case *Balance:
		return v.AppendBorsh(b)
	case *Hash:
		return append(b, v[:]...)
	case errBorsh:
		return v.AppendBorsh(b)
	}
	return appendErrWord(b, at)
}

// decodeErrField is the inverse of appendErrField.
func decodeErrField(r *borsh.Reader, at any, maybe bool) {
	switch v := at.(type) {
	case *string:
		*v = r.String()
	case *uint16:
		*v = r.Uint16()
	case **uint16:
		if *v = nil; r.Option() {
			x := r.Uint16()
			*v = &x
		}
	case *uint32:
		*v = r.Uint32()
	case *ProtocolVersion:
		*v = ProtocolVersion(r.Uint32())
	case *uint64:
		*v = r.Uint64()
	case *Nonce:
		*v = Nonce(r.Uint64())
	case *Gas:
		*v = Gas(r.Uint64())
	case *json.Number:
		x := math.Float64frombits(r.Uint64())
		if math.IsNaN(x) || math.IsInf(x, 0) {
			r.Failf("a number that JSON has no form of")
			return
		}
		*v = json.Number(strconv.FormatFloat(x, 'g', -1, 64))
	case *PublicKey:
		if *v = ""; !maybe || r.Option() {
			*v = ReadPublicKey(r)
		}
	case *AccountID:
		*v = ReadAccountID(r)
	case *Balance:
		v.DecodeBorsh(r)
	case *Hash:
		*v = ReadHash(r)
	case errBorsh:
		v.DecodeBorsh(r)
	default:
		decodeErrWord(r, at)
	}
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *TxExecutionError) AppendBorsh(b []byte) []byte {
	tag := 0
	if e.InvalidTx != nil {
		tag = 1
	}
	return appendErrorBorsh(b, txExecutionRows, tag, e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *TxExecutionError) DecodeBorsh(r *borsh.Reader) {
	*e = TxExecutionError{}
	decodeErrorBorsh(r, "TxExecutionError", txExecutionRows, e)
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *ActionError) AppendBorsh(b []byte) []byte {
	if e.Index == nil {
		b = append(b, 0)
	} else {
		b = borsh.AppendUint64(append(b, 1), *e.Index)
	}
	return e.Kind.AppendBorsh(b)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *ActionError) DecodeBorsh(r *borsh.Reader) {
	*e = ActionError{}
	if r.Option() {
		i := r.Uint64()
		e.Index = &i
	}
	e.Kind.DecodeBorsh(r)
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *ActionErrorKind) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, actionErrorRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *ActionErrorKind) DecodeBorsh(r *borsh.Reader) {
	*e = ActionErrorKind{}
	e.Tag = ActionErrorTag(decodeErrorBorsh(r, "ActionErrorKind", actionErrorRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *InvalidTxError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, invalidTxRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *InvalidTxError) DecodeBorsh(r *borsh.Reader) {
	*e = InvalidTxError{}
	e.Tag = InvalidTxTag(decodeErrorBorsh(r, "InvalidTxError", invalidTxRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *InvalidAccessKeyError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, invalidAccessKeyRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *InvalidAccessKeyError) DecodeBorsh(r *borsh.Reader) {
	*e = InvalidAccessKeyError{}
	e.Tag = InvalidAccessKeyTag(decodeErrorBorsh(r, "InvalidAccessKeyError", invalidAccessKeyRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *ActionsValidationError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, actionsValidationRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *ActionsValidationError) DecodeBorsh(r *borsh.Reader) {
	*e = ActionsValidationError{}
	e.Tag = ActionsValidationTag(decodeErrorBorsh(r, "ActionsValidationError", actionsValidationRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *ReceiptValidationError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, receiptValidationRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *ReceiptValidationError) DecodeBorsh(r *borsh.Reader) {
	*e = ReceiptValidationError{}
	e.Tag = ReceiptValidationTag(decodeErrorBorsh(r, "ReceiptValidationError", receiptValidationRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *StorageError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, storageRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *StorageError) DecodeBorsh(r *borsh.Reader) {
	*e = StorageError{}
	e.Tag = StorageTag(decodeErrorBorsh(r, "StorageError", storageRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *FunctionCallError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, functionCallRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *FunctionCallError) DecodeBorsh(r *borsh.Reader) {
	*e = FunctionCallError{}
	e.Tag = FunctionCallTag(decodeErrorBorsh(r, "FunctionCallError", functionCallRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (e *CompilationError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, compilationRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *CompilationError) DecodeBorsh(r *borsh.Reader) {
	*e = CompilationError{}
	e.Tag = CompilationTag(decodeErrorBorsh(r, "CompilationError", compilationRows, e))
}

// AppendBorsh appends the form in which nodes exchange the error.
func (d *DepositCostFailureReason) AppendBorsh(b []byte) []byte { return append(b, byte(*d)) }

// DecodeBorsh reads what AppendBorsh writes.
func (d *DepositCostFailureReason) DecodeBorsh(r *borsh.Reader) {
	*d = DepositCostFailureReason(decodeErrorBorsh(r, "DepositCostFailureReason", depositReasonRows, d))
}

// trieContexts are the names of MissingTrieValueContext, by tag.
var trieContexts = [...]string{"TrieIterator", "TriePrefetchingStorage", "TrieMemoryPartialStorage", "TrieStorage"}

// appendErrWord appends an enum without fields, or a MissingTrieValue.
func appendErrWord(b []byte, at any) []byte {
	switch v := at.(type) {
	case *MethodResolveError:
		return append(b, byte(*v))
	case *PrepareError:
		return append(b, byte(*v))
	case *WasmTrap:
		return append(b, byte(*v))
	case *MissingTrieValue:
		return append(append(b, byte(max(slices.Index(trieContexts[:], v.Context), 0))), v.Hash[:]...)
	}
	panic(fmt.Sprintf("primitives: no borsh form of %T", at))
}

// decodeErrWord is the inverse of appendErrWord.
func decodeErrWord(r *borsh.Reader, at any) {
	tag := func(enum string, n int) byte {
		t := r.Byte()
		if int(t) >= n {
			r.BadTag(enum, t)
			return 0
		}
		return t
	}
	switch v := at.(type) {
	case *MethodResolveError:
		*v = MethodResolveError(tag("MethodResolveError", len(methodResolveRows)))
	case *PrepareError:
		*v = PrepareError(tag("PrepareError", len(prepareRows)))
	case *WasmTrap:
		*v = WasmTrap(tag("WasmTrap", len(wasmTrapRows)))
	case *MissingTrieValue:
		v.Context = trieContexts[tag("MissingTrieValueContext", len(trieContexts))]
		v.Hash = ReadHash(r)
	default:
		panic(fmt.Sprintf("primitives: no borsh form of %T", at))
	}
}
