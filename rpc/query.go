package rpc

import (
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var queryFaults = []*Fault{
	NoSyncedBlocks, UnavailableShard, GarbageCollected, UnknownBlock, UnknownAccount, NoContractCode, TooLargeState, UnknownGasKey,
	NoGlobalContractCode, ProofUnavailable, TooManyAccessKeys,
}

var query = Method[queryParams]{
	Name: "query", Doc: `Returns an account, its keys, code or state, or the result of a contract's view method. It does not change the
state.`,
	Faults: queryFaults,
	Parse:  parseQuery,
	Labels: append(slices.Clone(queryLabels), "query_view_state_with_proof"),
	Label: func(q *queryParams) string {
		if q.kind == qState && q.proof {
			return "query_view_state_with_proof"
		}
		return queryLabels[q.kind]
	},
	Handle: func(c *call, b []byte, q *queryParams) ([]byte, error) {
		s, err := c.node.State(q.block, q.account)
		if err != nil {
			return b, queryBlockFault(err, &q.block)
		}
		defer s.Release()
		out, err := answerQuery(c, b, s, q)
		return legacyQueryError(b, out, s, q, err)
	},
}

// queryLabels are the names of the request types in metrics.
var queryLabels = func() (labels []string) {
	for _, n := range queryNames {
		labels = append(labels, "query_"+n)
	}
	return labels
}()

// viewMethod declares the EXPERIMENTAL_ method of one request type. All its errors are structured.
func viewMethod(kind queryKind, name, params, doc string, faults ...*Fault) Method[queryParams] {
	return Method[queryParams]{
		Name: name, Doc: doc,
		Faults: append([]*Fault{UnknownBlock, UnknownAccount, NoSyncedBlocks, UnavailableShard, GarbageCollected}, faults...),
		Parse:  parseView(kind, params),
		Handle: func(c *call, b []byte, q *queryParams) ([]byte, error) {
			s, err := c.node.State(q.block, q.account)
			if err != nil {
				return b, viewBlockFault(err, &q.block)
			}
			defer s.Release()
			out, err := answerQuery(c, b, s, q)
			if err != nil {
				return b, internal(reachedLimits, err)
			}
			return out, nil
		},
	}
}

var (
	viewAccount = viewMethod(qAccount, "EXPERIMENTAL_view_account", "RpcViewAccountRequest", "Returns an account.")
	viewCode    = viewMethod(qCode, "EXPERIMENTAL_view_code", "RpcViewCodeRequest", "Returns an account's contract code.", NoContractCode)
	viewState   = viewMethod(qState, "EXPERIMENTAL_view_state", "RpcViewStateRequest", "Returns a contract's state.",
		TooLargeState, ProofUnavailable)

	viewAccessKey = viewMethod(qAccessKey, "EXPERIMENTAL_view_access_key", "RpcViewAccessKeyRequest",
		"Returns an access key of an account.", UnknownAccessKey)
	viewAccessKeyList = viewMethod(qAccessKeyList, "EXPERIMENTAL_view_access_key_list", "RpcViewAccessKeyListRequest",
		"Returns all access keys of an account, or a page of them.", TooManyAccessKeys)
	viewGasKeyNonces = viewMethod(qGasKeyNonces, "EXPERIMENTAL_view_gas_key_nonces", "RpcViewGasKeyNoncesRequest",
		"Returns the nonces of a gas key.", UnknownGasKey)
	callFunction = viewMethod(qCall, "EXPERIMENTAL_call_function", "RpcCallFunctionRequest",
		"Returns the result of a contract's view method. It does not change the state.", ContractExecution)
)

// queryBlockFault maps an error of Node.State to a fault of method query.
func queryBlockFault(err error, ref *view.BlockRef) error {
	e, ok := lookup(err)
	if !ok {
		return internal(reachedLimits, err)
	}
	switch e.Kind {
	case view.ErrUnknownHeight, view.ErrUnknownBlock:
		info := member(nil, "block_reference", ref.AppendJSON(nil))
		switch ref.Kind {
		case view.RefHeight:
			return UnknownBlock.because(notFound+"BLOCK HEIGHT: "+strconv.FormatUint(uint64(ref.Height), 10)+causeUnknown, info)
		case view.RefHash:
			return UnknownBlock.because(notFound+"BLOCK HEADER: "+ref.Hash.String(), info)
		}
		return UnknownBlock.because(unknownReference(ref), info)
	case view.ErrNotSynced:
		return NoSyncedBlocks.because("There are no fully synchronized blocks on the node yet", nil)
	case view.ErrUnavailableShard:
		return UnavailableShard.because(unavailableShard(e), member(nil, "requested_shard_id", shardNumber(e.ShardID)))
	case view.ErrGarbageCollected:
		return GarbageCollected.because(collected(e), atInfo(nil, &view.At{Height: e.Height, Hash: e.Hash}))
	}
	return internal(reachedLimits, err)
}

func unknownReference(ref *view.BlockRef) string {
	return string(ref.AppendDebug([]byte("Block either has never been observed on the node or has been garbage collected: ")))
}

func shardNumber(id primitives.ShardID) []byte { return strconv.AppendUint(nil, uint64(id), 10) }

func unavailableShard(e *view.LookupError) string {
	return "The node does not track the shard ID " + string(shardNumber(e.ShardID))
}

func collected(e *view.LookupError) string {
	return "The data for block #" + strconv.FormatUint(uint64(e.Height), 10) +
		" is garbage collected on this node, use an archival node to fetch historical data"
}

// textError is an error that consists of its text.
type textError string

func (e textError) Error() string { return string(e) }

// viewBlockFault is queryBlockFault with the EXPERIMENTAL_ methods' texts for an unknown block. For
// errors that are not about an unknown block, neard returns INTERNAL_ERROR from these methods; this
// node returns the faults of method query.
func viewBlockFault(err error, ref *view.BlockRef) error {
	if e, ok := lookup(err); ok && (e.Kind == view.ErrUnknownHeight || e.Kind == view.ErrUnknownBlock) {
		return UnknownBlock.because(unknownReference(ref), member(nil, "block_reference", ref.AppendJSON(nil)))
	}
	return queryBlockFault(err, ref)
}

// atInfo appends hash and height of the block to an info object. The caller appends the object's
// remaining keys after hash and height.
func atInfo(info []byte, at *view.At) []byte {
	info = member(info, "block_hash", view.AppendHash(nil, &at.Hash))
	return member(info, "block_height", strconv.AppendUint(nil, uint64(at.Height), 10))
}

func quoted(text string) []byte { return view.AppendString(nil, text) }

// answerQuery appends the answer to a query about a state. The error is a failure or a *callFault.
func answerQuery(c *call, b []byte, s State, q *queryParams) ([]byte, error) {
	at := s.At()
	switch q.kind {
	case qAccount:
		account, err := needAccount(s, q.account, &at)
		if err != nil {
			return b, err
		}
		if b = view.AppendQueryAccount(b, account, &at); q.proof {
			return answerProof(c, b, s, primitives.AppendAccountKey(nil, q.account), &at)
		}
		return b, nil
	case qCode:
		return answerCode(c, b, s, q, &at)
	case qState:
		return answerState(c, b, s, q, &at)
	case qAccessKey:
		var key primitives.AccessKey
		ok, err := s.AccessKey(q.account, q.key.Handle(), &key)
		if err == nil && !ok {
			text := q.key.String()
			err = UnknownAccessKey.because("Access key for public key "+text+" does not exist while viewing",
				member(atInfo(nil, &at), "public_key", quoted(text)))
		}
		if err != nil {
			return b, err
		}
		if b = view.AppendQueryAccessKey(b, &key, &at); q.proof {
			return answerProof(c, b, s, primitives.AppendAccessKeyKey(nil, q.account, q.key.Handle()), &at)
		}
		return b, nil
	case qAccessKeyList:
		return answerAccessKeys(c, b, s, q, &at)
	case qGasKeyNonces:
		return answerGasKey(b, s, q, &at)
	case qCall:
		return answerCall(c, b, s, q, &at)
	case qGlobalCode:
		return answerGlobalCode(c, b, s, &primitives.GlobalContractID{Hash: q.codeHash}, &at)
	default:
		return answerGlobalCode(c, b, s, &primitives.GlobalContractID{Account: q.account}, &at)
	}
}

// noProofFault maps an error to a fault if the node cannot read the state as a trie. Such a state
// has no proofs.
func noProofFault(err error, at *view.At) error {
	e, ok := lookup(err)
	if !ok || e.Kind != view.ErrNoProof {
		return err
	}
	height := strconv.FormatUint(uint64(e.Height), 10)
	return ProofUnavailable.because("Proofs are to be had from block #"+height+" on; ask without include_proof, or for a newer block",
		member(atInfo(nil, at), "earliest_provable_height", []byte(height)))
}

// answerProof appends the proof of a key to an answer.
func answerProof(c *call, b []byte, s State, key []byte, at *view.At) ([]byte, error) {
	proof, err := s.KeyProof(key)
	if err != nil {
		return b, noProofFault(err, at)
	}
	size := 20
	for _, node := range proof {
		size += 8 + len(node)/3*4
	}
	if b, err = c.reserve(b, size); err != nil {
		return b, err
	}
	return view.AppendProof(b, proof), nil
}

// needAccount returns an account, or fails with UNKNOWN_ACCOUNT.
func needAccount(s State, id primitives.AccountID, at *view.At) (*primitives.Account, error) {
	account := new(primitives.Account)
	ok, err := s.Account(id, account)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, UnknownAccount.because("account "+string(id)+" does not exist while viewing",
			member(atInfo(nil, at), "requested_account_id", quoted(string(id))))
	}
	return account, nil
}

// contractCode returns the code that an account runs, its own or a global contract's; nil if the
// account has no contract.
func contractCode(s State, id primitives.AccountID, account *primitives.Account) ([]byte, error) {
	if account.Contract.Kind == primitives.ContractLocal {
		return s.Code(id)
	}
	if global, ok := account.Contract.GlobalID(); ok {
		return s.GlobalCode(&global)
	}
	return nil, nil
}

func answerCode(c *call, b []byte, s State, q *queryParams, at *view.At) ([]byte, error) {
	account, err := needAccount(s, q.account, at)
	if err != nil {
		return b, err
	}
	code, err := contractCode(s, q.account, account)
	if err != nil {
		return b, err
	}
	if code == nil {
		return b, NoContractCode.because("Contract code for contract ID #"+string(q.account)+" has never been observed on the node",
			member(atInfo(nil, at), "contract_account_id", quoted(string(q.account))))
	}
	return appendCode(c, b, code, at)
}

func answerGlobalCode(c *call, b []byte, s State, id *primitives.GlobalContractID, at *view.At) ([]byte, error) {
	code, err := s.GlobalCode(id)
	if err != nil {
		return b, err
	}
	if code == nil {
		name := "CodeHash(" + id.Hash.String() + ")"
		if id.Account != "" {
			name = `AccountId(AccountId("` + string(id.Account) + `"))`
		}
		return b, NoGlobalContractCode.because("Global contract code with identifier "+name+" has never been observed on the node",
			member(atInfo(nil, at), "identifier", id.AppendJSON(nil)))
	}
	return appendCode(c, b, code, at)
}

// appendCode appends code, within the limits of the reply.
func appendCode(c *call, b, code []byte, at *view.At) ([]byte, error) {
	b, err := c.reserve(b, 300+len(code)/3*4)
	if err != nil {
		return b, err
	}
	hash := primitives.HashBytes(code)
	return view.AppendQueryCode(b, code, &hash, at), nil
}

// Bounds of a page of state. maxPageBytes counts the bytes of trie keys and values (nearcore
// state_viewer/mod.rs).
const (
	maxPageItems = 10_000
	maxPageBytes = 50_000
)

func answerState(c *call, b []byte, s State, q *queryParams, at *view.At) ([]byte, error) {
	account, err := needAccount(s, q.account, at)
	if err != nil {
		return b, err
	}
	if !q.paged() && c.opts.ViewStateLimit > 0 {
		code, err := []byte(nil), error(nil)
		if account.Contract.Kind == primitives.ContractLocal {
			if code, err = s.Code(q.account); err != nil {
				return b, err
			}
		}
		if account.StorageUsage-min(uint64(len(code)), account.StorageUsage) > c.opts.ViewStateLimit {
			return b, TooLargeState.because("State of contract "+string(q.account)+" is too large to be viewed",
				member(atInfo(nil, at), "contract_account_id", quoted(string(q.account))))
		}
	}
	page := view.StatePage{}
	items, used := maxPageItems, 0
	if q.limit > 0 {
		items = min(items, int(q.limit))
	}
	most := c.left(b) // maximum number of bytes that can still be appended to the reply
	prefixLen := len(primitives.AppendContractDataKey(nil, q.account, nil))
	err = s.Data(q.account, q.prefix, q.after, func(key, value []byte) bool {
		if q.paged() && (len(page.Items) >= items || used >= maxPageBytes) {
			page.LastKey = page.Items[len(page.Items)-1].Key // only an incomplete page has a last key
			return false
		}
		used += prefixLen + len(key) + len(value)
		if used/3*4 > most {
			return false
		}
		page.Items = append(page.Items, view.StateItem{Key: key, Value: value})
		return true
	})
	if err == nil && q.proof {
		page.Proof, err = s.DataProof(q.account, q.prefix)
	}
	if err != nil {
		return b, noProofFault(err, at)
	}
	size := used / 3 * 4
	for _, node := range page.Proof {
		size += len(node) / 3 * 4
	}
	if b, err = c.reserve(b, size); err != nil {
		return b, err
	}
	return view.AppendQueryState(b, &page, at), nil
}

// answerAccessKeys appends an account's keys. A request asks for a page with after_key or limit; a
// page has at most Options.ViewKeysLimit keys. A request for all keys fails if there are more than
// that (nearcore 2.14.0-rc.1 runtime/runtime/src/state_viewer/mod.rs:185). An account that does not
// exist has no keys.
func answerAccessKeys(c *call, b []byte, s State, q *queryParams, at *view.At) ([]byte, error) {
	most := c.opts.ViewKeysLimit
	if q.limit > 0 {
		most = min(most, q.limit)
	}
	if most > fewKeys { // reading many keys counts as heavy work
		var account primitives.Account
		if ok, err := s.Account(q.account, &account); err == nil && ok && account.StorageUsage > smallReply {
			if err := c.turn(); err != nil {
				return b, err
			}
		}
	}
	keys, more, err := s.AccessKeys(q.account, q.afterKey, int(most))
	if err != nil {
		return b, err
	}
	if more && !q.pagedKeys() {
		limit := strconv.AppendUint(nil, uint64(most), 10)
		info := member(atInfo(nil, at), "limit", limit)
		return b, TooManyAccessKeys.because("Account "+string(q.account)+" has more than "+string(limit)+
			" access keys; use a paginated view_access_key_list request", member(info, "requested_account_id", quoted(string(q.account))))
	}
	if b, err = c.reserve(b, view.KeysSize(keys)); err != nil {
		return b, err
	}
	return view.AppendQueryAccessKeyList(b, keys, more, at), nil
}

// fewKeys is the number of keys that may be read without a turn of the heavy limit.
const fewKeys = 100

func answerGasKey(b []byte, s State, q *queryParams, at *view.At) ([]byte, error) {
	var key primitives.AccessKey
	handle := q.key.Handle()
	ok, err := s.AccessKey(q.account, handle, &key)
	if err != nil {
		return b, err
	}
	if !ok || key.GasKey == nil {
		text := q.key.String()
		return b, UnknownGasKey.because("Gas key for public key "+text+" does not exist while viewing",
			member(atInfo(nil, at), "public_key", quoted(text)))
	}
	nonces := make([]primitives.Nonce, key.GasKey.NumNonces)
	for i := range nonces {
		if nonces[i], ok, err = s.GasKeyNonce(q.account, handle, uint16(i)); err != nil {
			return b, err
		}
		if !ok {
			return b, textError("gas key nonce at index " + strconv.Itoa(i) + " does not exist for account " + string(q.account) +
				" and public key " + q.key.String())
		}
	}
	return view.AppendQueryGasKeyNonces(b, nonces, at), nil
}
