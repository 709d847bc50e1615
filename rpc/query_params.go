package rpc

import (
	"bytes"
	"errors"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// queryKind is the request_type of a query.
type queryKind int

const (
	qAccount queryKind = iota
	qCode
	qState
	qAccessKey
	qAccessKeyList
	qGasKeyNonces
	qCall
	qGlobalCode
	qGlobalCodeByAccount
)

var queryNames = []string{
	"view_account", "view_code", "view_state", "view_access_key", "view_access_key_list", "view_gas_key_nonces", "call_function",
	"view_global_contract_code", "view_global_contract_code_by_account_id",
}

// queryParams are the parameters of all queries about state. The comment of a field names the kinds
// of query that use the field.
type queryParams struct {
	kind     queryKind
	block    view.BlockRef
	account  primitives.AccountID
	key      primitives.PublicKey       // of qAccessKey, qGasKeyNonces
	prefix   []byte                     // of qState
	after    []byte                     // of qState: the page begins after this key; nil: at the first key
	afterKey primitives.PublicKeyHandle // of qAccessKeyList: the page begins after this key; empty: at the first key
	limit    uint32                     // of qState and qAccessKeyList: maximum number of items; 0: no limit
	proof    bool                       // of qState, qAccount, qAccessKey: whether the reply contains a proof
	method   string                     // of qCall
	args     []byte                     // of qCall
	codeHash primitives.Hash            // of qGlobalCode
}

// paged returns whether the request asks for a page of state.
func (q *queryParams) paged() bool { return q.limit > 0 || q.after != nil }

// pagedKeys returns whether the request asks for a page of keys.
func (q *queryParams) pagedKeys() bool { return q.limit > 0 || q.afterKey != "" }

// fields returns the members that the kind has, in the order of nearcore's QueryRequest
// (core/primitives/src/views.rs:387).
func (q *queryParams) fields() []field {
	account := field{"account_id", false, into(&q.account, readAccountID)}
	switch q.kind {
	case qState:
		return []field{account, {"prefix_base64", false, into(&q.prefix, readBase64)},
			{"after_key_base64", true, into(&q.after, readBase64)}, {"limit", true, into(&q.limit, readLimit)},
			{"include_proof", false, into(&q.proof, readBool)}}
	case qAccessKeyList: // pages exist since nearcore 2.14
		return []field{account, {"after_key", true, into(&q.afterKey, readHandle)}, {"limit", true, into(&q.limit, readLimit)}}
	case qAccessKey, qGasKeyNonces:
		return []field{account, {"public_key", false, into(&q.key, readKey)}}
	case qCall:
		return []field{account, {"method_name", false, func(v val) error {
			text, err := readString(v)
			q.method = cloneString(text)
			return err
		}}, {"args_base64", false, into(&q.args, readBase64)}}
	case qGlobalCode:
		return []field{{"code_hash", false, into(&q.codeHash, readHash)}}
	}
	return []field{account}
}

// read fills q from the members of an object.
func (q *queryParams) read(v val) error {
	if q.kind == qAccount { // the most frequent kind has its own code, without a list of fields
		x, ok := v.get("account_id")
		if !ok {
			return missingField("account_id")
		}
		var err error
		q.account, err = readAccountID(x)
		return err
	}
	if q.kind == qCall { // the second most frequent kind
		if done, err := q.readCall(v); done {
			return err
		}
	}
	fields := q.fields()
	if q.kind == qState {
		if _, ok := v.get("include_proof"); !ok { // nearcore accepts a missing include_proof but not null
			fields = fields[:len(fields)-1]
		}
	}
	if err := readFields(v, fields); err != nil || q.kind != qState {
		return err
	}
	switch {
	case q.proof && q.paged():
		return &plainError{"include_proof is not supported with paginated view_state (after_key_base64 / limit)"}
	case q.after != nil && !bytes.HasPrefix(q.after, q.prefix):
		return &plainError{"after_key_base64 must start with prefix_base64"}
	}
	return nil
}

// readCall reads the members of a call in the order of readFields. done is false if a member is
// missing.
func (q *queryParams) readCall(v val) (done bool, err error) {
	account, ok1 := v.get("account_id")
	args, ok2 := v.get("args_base64")
	method, ok3 := v.get("method_name")
	if !ok1 || !ok2 || !ok3 {
		return false, nil
	}
	if q.account, err = readAccountID(account); err != nil {
		return true, err
	}
	if q.args, err = readBase64(args); err != nil {
		return true, err
	}
	text, err := readString(method)
	q.method = cloneString(text)
	return true, err
}

// parseQuery parses the parameters of method query: first the block, then the request's type, then
// the members of that type.
func parseQuery(v val) (q queryParams, err error) {
	if v.kind() == kArray && v.len() == 2 {
		return parseQueryPath(v)
	}
	if err = needObject(v, "RpcQueryRequest"); err != nil {
		return q, err
	}
	if q.block, err = readFlatRef(v); err != nil {
		return q, err
	}
	kind, ok := v.get("request_type")
	if !ok {
		return q, missingField("request_type")
	}
	i, err := readTag(kind, queryNames)
	if err != nil {
		return q, err
	}
	q.kind = queryKind(i)
	if err := q.read(v); err != nil {
		return q, err
	}
	// nearcore returns proofs only for contract data; Troupe returns them for accounts and access
	// keys too.
	if x, ok := v.get("include_proof"); ok && (q.kind == qAccount || q.kind == qAccessKey) {
		q.proof, err = readBool(x)
	}
	return q, err
}

// parseView returns the parser of one EXPERIMENTAL_ method. The parser reads first the members of
// kind, then the block.
func parseView(kind queryKind, name string) func(val) (queryParams, error) {
	return func(v val) (q queryParams, err error) {
		q.kind = kind
		if err = needObject(v, name); err != nil {
			return q, err
		}
		err = q.read(v)
		var plain *plainError
		// parameters are checked first: errors about the block reference come last
		if err != nil && !errors.As(err, &plain) {
			return q, err
		}
		if ref, refErr := readFlatRef(v); refErr == nil {
			q.block = ref
		} else {
			return q, refErr
		}
		return q, err
	}
}

// maxPathData is the maximum length of path and data in the old form of queries together, in bytes.
const maxPathData = 10 * 1024

// parseQueryPath parses the oldest form of queries, ["path", "data"], which reads the head
// (nearcore chain/jsonrpc/src/api/query.rs:52).
func parseQueryPath(v val) (q queryParams, err error) {
	pathText, err := readString(v.item(0))
	if err != nil {
		return q, err
	}
	data, err := readString(v.item(1))
	if err != nil {
		return q, err
	}
	path := cloneString(pathText)
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 2 {
		return q, &plainError{"Not enough query parameters provided"}
	}
	if q.account, err = primitives.ParseAccountID(parts[1]); err != nil {
		return q, &plainError{err.Error()}
	}
	raw := func() ([]byte, error) {
		out, err := primitives.DecodeBase58(borrowString(data), min(max(maxPathData-len(path), 0), len(data)))
		switch {
		case primitives.IsBase58TooLong(err):
			return nil, &plainError{"Query data size is too large"}
		case err != nil:
			return nil, &plainError{err.Error()}
		}
		return out, nil
	}
	switch parts[0] {
	case "account":
		q.kind = qAccount
	case "access_key":
		if q.kind = qAccessKeyList; len(parts) == 3 {
			q.kind = qAccessKey
			if q.key, err = primitives.ParsePublicKey(parts[2]); err != nil {
				return q, &plainError{"Invalid public key"}
			}
		}
	case "code":
		q.kind = qCode
	case "contract":
		q.kind = qState
		q.prefix, err = raw()
	case "call":
		if len(parts) < 3 {
			return q, &plainError{"Method name is missing"}
		}
		q.kind, q.method = qCall, parts[2]
		q.args, err = raw()
	default:
		return q, &plainError{"Unknown path " + clipTo(parts[0], maxText)}
	}
	return q, err
}
