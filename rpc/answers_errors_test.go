package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// errorVector is an error as near-jsonrpc-primitives 0.38.0 writes it.
type errorVector struct {
	Methods []string // that may return it
	Hidden  string   // what the reply does not show of it
	Error   string   // the error member of the reply
}

// neverProduced are errors that the types have but this node never returns. The key is the cause,
// or the method and the cause.
var neverProduced = map[string]string{
	"INVALID_ACCOUNT":   "an invalid account id is a PARSE_ERROR",
	"SHARD_NOT_APPLIED": "only for requests that another node of a sharded RPC passes on",
	"EXPERIMENTAL_call_function NO_CONTRACT_CODE":       "an account without code is a CONTRACT_EXECUTION_ERROR",
	"EXPERIMENTAL_view_access_key UNKNOWN_ACCOUNT":      "a missing account has no keys: UNKNOWN_ACCESS_KEY",
	"EXPERIMENTAL_view_access_key_list UNKNOWN_ACCOUNT": "a missing account has no keys: an empty list",
	"EXPERIMENTAL_view_gas_key_nonces UNKNOWN_ACCOUNT":  "a missing account has no keys: UNKNOWN_GAS_KEY",
	"EXPERIMENTAL_indexer_block UNSUPPORTED":            "outcomes and state changes are always stored",
}

// TestErrorsAreWrittenAsNeardWritesThem provokes each error of each method, with the values that
// the vector has. The reply must equal what nearcore's types write for that error.
func TestErrorsAreWrittenAsNeardWritesThem(t *testing.T) {
	skipped, seen := map[string]bool{}, map[string]int{}
	eachAnswer(t, "errors", func(x *errorVector) {
		var e struct {
			Cause struct {
				Name string
				Info map[string]json.RawMessage
			}
			Data json.RawMessage
		}
		if err := json.Unmarshal([]byte(x.Error), &e); err != nil {
			t.Fatal(err)
		}
		for _, method := range x.Methods {
			name := method + " " + e.Cause.Name
			for _, key := range []string{name, e.Cause.Name} {
				if neverProduced[key] != "" {
					skipped[key] = true
					name = ""
				}
			}
			if name == "" {
				continue
			}
			seen[name]++
			p := provocation{t: t, method: method, info: e.Cause.Info, hidden: x.Hidden, data: e.Data, params: goodParams[method]}
			if p.params == "" {
				p.params = `["` + signedText() + `"]`
			}
			want := `{"jsonrpc":"2.0","error":` + p.known(e.Cause.Name, x.Error) + `,"id":1}`
			if got := p.reply(e.Cause.Name); got != want {
				t.Errorf("%s %s:\n got %s\nwant %s", method, p.params, got, want)
			}
		}
	})
	for _, key := range slices.Sorted(maps.Keys(neverProduced)) {
		if !skipped[key] {
			t.Errorf("no vector is of %s", key)
		}
	}
	for i := range methods {
		r := &methods[i]
		for _, f := range r.faults {
			if name := r.name + " " + f.Name; seen[name] == 0 && neverProduced[name] == "" && !ownFault(r, f) {
				t.Errorf("no vector is of %s of %s", f.Name, r.name)
			}
		}
	}
}

// ownFault returns whether a fault of a method is absent from nearcore's type of that method's
// errors.
func ownFault(r *route, f *Fault) bool {
	if r.own || r.sandbox || r.simulates || strings.HasPrefix(r.name, "troupe_") || strings.HasSuffix(r.name, "subscribe") {
		return true
	}
	switch f {
	case ProofUnavailable:
		return true
	case NotSyncedYet:
		return r.name == "chunk" || r.name == "EXPERIMENTAL_congestion_level" || r.name == "gas_price"
	case NoSyncedBlocks, UnavailableShard, GarbageCollected, TooManyAccessKeys:
		return strings.HasPrefix(r.name, "EXPERIMENTAL_view_") || r.name == "EXPERIMENTAL_call_function"
	}
	return false
}

// known applies a deliberate difference to a vector. When nearcore converts an internal error of
// the methods for transactions, the error object loses the text, which is then in data alone.
func (p *provocation) known(cause, want string) string {
	const lifted = `"InternalError happened during serializing InternalError"`
	if cause != "INTERNAL_ERROR" || !strings.Contains(want, lifted) {
		return want
	}
	p.info["error_message"] = view.AppendString(nil, p.hidden)
	return strings.Replace(want, lifted, string(p.info["error_message"]), 1)
}

// provocation makes a server return an error.
type provocation struct {
	t      *testing.T
	method string
	info   map[string]json.RawMessage
	hidden string
	data   json.RawMessage
	params string
	node   fakeNode
	opts   Options
}

func (p *provocation) get(name string, into any) {
	p.t.Helper()
	if err := json.Unmarshal(p.info[name], into); err != nil {
		p.t.Fatalf("%s of %s %s: %v", name, p.method, p.info, err)
	}
}

func (p *provocation) text(name string) (s string) {
	p.get(name, &s)
	return s
}

func (p *provocation) number(name string) (n uint64) {
	p.get(name, &n)
	return n
}

func (p *provocation) hash(name string) (h primitives.Hash) {
	p.get(name, &h)
	return h
}

// account puts the account that the error names into the parameters, and sets the block of the
// state.
func (p *provocation) account(name string) {
	p.at()
	p.params = strings.ReplaceAll(p.params, "a.near", p.text(name))
}

func (p *provocation) at() {
	p.node.state.at = &view.At{Height: primitives.Height(p.number("block_height")), Hash: p.hash("block_hash")}
}

func (p *provocation) key() {
	p.at()
	p.params = strings.Replace(p.params, testKey.String(), p.text("public_key"), 1)
}

// request makes the parameters of query.
func (p *provocation) request(kind, members string) {
	if p.method == "query" {
		p.params = `{"finality":"final","request_type":"` + kind + `",` + members + `}`
	}
}

const someAccount = `"account_id":"a.near"`

// lookup makes all reads of the node fail.
func (p *provocation) lookup(e view.LookupError) {
	p.node.err = &e
	p.node.tx = func(ctx context.Context, _ *view.GetTx) (*view.FinalOutcome, error) { return nil, p.node.err }
	p.node.sendTx = func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) { return nil, p.node.err }
}

// unknownBlock is the error of a block that nearcore names in a text: "BLOCK HEIGHT: 7".
func (p *provocation) unknownBlock() {
	kind, id, _ := strings.Cut(p.hidden, ": ")
	if kind == "BLOCK HEIGHT" {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		p.lookup(view.LookupError{Kind: view.ErrUnknownHeight, Height: primitives.Height(n)})
		return
	}
	h, err := primitives.ParseHash(id)
	if err != nil {
		p.t.Fatal(err)
	}
	p.lookup(view.LookupError{Kind: view.ErrUnknownBlock, Hash: h})
}

// origin makes EXPERIMENTAL_receipt_to_tx fail.
func (p *provocation) origin(e view.OriginError) { p.node.origin = &e }

// reply provokes an error and returns the reply.
func (p *provocation) reply(cause string) string {
	p.opts = Options{IndexerRequests: 1}
	switch cause {
	case "UNKNOWN_BLOCK":
		ref, ok := p.info["block_reference"]
		if !ok {
			p.unknownBlock()
			break
		}
		p.lookup(view.LookupError{Kind: view.ErrUnknownBlock})
		p.params = strings.Replace(p.params, `"finality":"final"`, strings.Trim(string(ref), "{}"), 1)
	case "NOT_SYNCED_YET", "NO_SYNCED_BLOCKS":
		p.lookup(view.LookupError{Kind: view.ErrNotSynced})
	case "INVALID_SHARD_ID":
		p.lookup(view.LookupError{Kind: view.ErrInvalidShard, ShardID: primitives.ShardID(p.number("shard_id"))})
	case "UNKNOWN_CHUNK":
		p.lookup(view.LookupError{Kind: view.ErrUnknownChunk, Hash: p.hash("chunk_hash")})
	case "UNAVAILABLE_SHARD":
		if p.method == "query" {
			p.lookup(view.LookupError{Kind: view.ErrUnavailableShard, ShardID: primitives.ShardID(p.number("requested_shard_id"))})
			break
		}
		p.lookup(view.LookupError{Kind: view.ErrOutcomeShard, Hash: p.hash("transaction_or_receipt_id"),
			ShardID: primitives.ShardID(p.number("shard_id"))})
	case "GARBAGE_COLLECTED_BLOCK":
		p.lookup(view.LookupError{Kind: view.ErrGarbageCollected, Height: primitives.Height(p.number("block_height")),
			Hash: p.hash("block_hash")})
	case "UNKNOWN_ACCOUNT":
		p.node.call = func(*view.Call) (*view.CallResult, error) { return nil, nil }
		p.account("requested_account_id")
	case "NO_CONTRACT_CODE":
		p.request("view_code", someAccount)
		p.node.state.account = new(primitives.Account)
		p.account("contract_account_id")
	case "TOO_LARGE_CONTRACT_STATE":
		p.request("view_state", someAccount+`,"prefix_base64":""`)
		p.opts.ViewStateLimit = 5
		p.node.state.account = &primitives.Account{StorageUsage: 6}
		p.account("contract_account_id")
	case "UNKNOWN_ACCESS_KEY":
		p.key()
	case "UNKNOWN_GAS_KEY":
		p.request("view_gas_key_nonces", someAccount+`,"public_key":"`+testKey.String()+`"`)
		p.key()
	case "TOO_MANY_ACCESS_KEYS":
		p.request("view_access_key_list", someAccount)
		p.opts.ViewKeysLimit = uint32(p.number("limit"))
		p.node.state.keys = make([]view.KeyInfo, p.opts.ViewKeysLimit+1)
		for i := range p.node.state.keys {
			p.node.state.keys[i].Handle = testKey.Handle()
		}
		p.account("requested_account_id")
	case "NO_GLOBAL_CONTRACT_CODE":
		var id struct {
			Hash    string
			Account string `json:"account_id"`
		}
		p.get("identifier", &id)
		if p.request("view_global_contract_code", `"code_hash":"`+id.Hash+`"`); id.Account != "" {
			p.request("view_global_contract_code_by_account_id", `"account_id":"`+id.Account+`"`)
		}
		p.at()
	case "CONTRACT_EXECUTION_ERROR":
		e := new(primitives.FunctionCallError)
		p.get("vm_error", e)
		p.node.call = func(*view.Call) (*view.CallResult, error) { return &view.CallResult{Err: e}, nil }
		p.at()
	case "INVALID_TRANSACTION":
		e := new(primitives.TxExecutionError)
		var data struct{ TxExecutionError json.RawMessage }
		if err := json.Unmarshal(p.data, &data); err != nil {
			p.t.Fatal(err)
		}
		if err := e.UnmarshalJSON(data.TxExecutionError); err != nil {
			p.t.Fatal(err)
		}
		p.lookup(view.LookupError{})
		p.node.err = e.InvalidTx
	case "DOES_NOT_TRACK_SHARD":
		p.lookup(view.LookupError{Kind: view.ErrShardNotTracked})
	case "REQUEST_ROUTED":
		p.lookup(view.LookupError{Kind: view.ErrRouted, Hash: p.hash("transaction_hash")})
	case "UNKNOWN_TRANSACTION":
		p.lookup(view.LookupError{Kind: view.ErrUnknownTx, Hash: p.hash("requested_transaction_hash")})
	case "TIMEOUT_ERROR":
		p.timeout()
	case "NODE_IS_SYNCING":
		p.lookup(view.LookupError{Kind: view.ErrSyncing})
	case "NO_NEW_BLOCKS":
		var d [2]uint64
		p.get("elapsed", &d)
		p.lookup(view.LookupError{Kind: view.ErrNoNewBlocks, Elapsed: d[0]*1e9 + d[1]})
	case "EPOCH_OUT_OF_BOUNDS":
		p.lookup(view.LookupError{Kind: view.ErrEpochOutOfBounds, Hash: p.hash("epoch_id")})
	case "UNKNOWN_EPOCH":
		p.lookup(view.LookupError{Kind: view.ErrUnknownEpoch})
	case "VALIDATOR_INFO_UNAVAILABLE":
		p.lookup(view.LookupError{Kind: view.ErrNoValidatorInfo})
	case "INCONSISTENT_STATE":
		p.lookup(view.LookupError{Kind: view.ErrInconsistentState, Shards: p.number("number_or_shards"),
			ShardID: primitives.ShardID(p.number("execution_outcome_shard_id"))})
	case "NOT_CONFIRMED":
		p.lookup(view.LookupError{Kind: view.ErrNotConfirmed, Hash: p.hash("transaction_or_receipt_id")})
	case "UNKNOWN_TRANSACTION_OR_RECEIPT":
		p.lookup(view.LookupError{Kind: view.ErrUnknownOutcome, Hash: p.hash("transaction_or_receipt_id")})
	case "UNKNOWN_RECEIPT":
		p.lookup(view.LookupError{Kind: view.ErrUnknownReceipt, Hash: p.hash("receipt_id")})
		p.params = strings.Replace(p.params, zeroHash, p.text("receipt_id"), 1)
		p.origin(view.OriginError{Kind: view.OriginUnknown, Receipt: p.hash("receipt_id")})
	case "DEPTH_EXCEEDED":
		p.origin(view.OriginError{Kind: view.OriginDepth, Receipt: p.hash("receipt_id"), Limit: p.number("limit")})
	case "UNSUPPORTED":
		p.origin(view.OriginError{Kind: view.OriginUnsupported, Text: p.text("error_message")})
	case "OUTCOMES_NOT_STORED":
		p.origin(view.OriginError{Kind: view.OriginNoOutcomes})
	case "WINDOW_TOO_LARGE":
		p.origin(view.OriginError{Kind: view.OriginWindow, Got: p.number("requested"), Limit: p.number("maximum")})
	case "MALFORMED_HINT":
		p.origin(view.OriginError{Kind: view.OriginHint, Text: p.text("error_message")})
	case "BUDGET_EXCEEDED":
		p.origin(view.OriginError{Kind: view.OriginBudget, Got: p.number("scanned"), Limit: p.number("limit")})
	case "DATA_UNAVAILABLE":
		h, err := primitives.ParseHash(strings.TrimPrefix(p.hidden, "BLOCK: "))
		if err != nil {
			p.t.Fatal(err)
		}
		p.lookup(view.LookupError{Kind: view.ErrUnknownBlock, Hash: h})
	case "INCOMPLETE_DATA":
		p.lookup(view.LookupError{Kind: view.ErrIncompleteData, Reason: p.text("error_message")})
	case "LIMIT_EXCEEDED":
		p.lookup(view.LookupError{Kind: view.ErrMessageLarge})
	case "BUSY":
	case "INTERNAL_ERROR":
		p.lookup(view.LookupError{})
		p.node.err = errors.New(p.text("error_message"))
		p.node.origin = p.node.err
	case "METHOD_NOT_FOUND":
		p.get("method_name", &p.method)
		p.params = "[]"
	case "PARSE_ERROR":
		b := appendInvalid([]byte(`{"jsonrpc":"2.0","error":`), cause, "error_message", p.text("error_message"), -32700, "Parse error")
		return string(b) + `,"id":1}`
	default:
		p.t.Fatalf("no way to provoke %s of %s", cause, p.method)
	}
	s := newServer(p.t, &p.node, p.opts)
	if cause == "BUSY" {
		s.metrics.indexing.Add(1)
	}
	method, err := json.Marshal(p.method)
	if err != nil {
		p.t.Fatal(err)
	}
	_, reply := post(s, "/", `{"jsonrpc":"2.0","id":1,"method":`+string(method)+`,"params":`+p.params+`}`)
	return reply
}

// timeout is the end of a wait for a transaction.
func (p *provocation) timeout() {
	e := view.LookupError{Kind: view.ErrTimeout}
	switch p.text("cause") {
	case "NOT_OBSERVED":
		e.Cause = view.TimeoutNotObserved
	case "DOES_NOT_TRACK_SHARD":
		e.Cause, e.ShardID = view.TimeoutUntracked, primitives.ShardID(p.number("shard_id"))
	case "PENDING":
		var status struct {
			Level string `json:"final_execution_status"`
		}
		p.get("status", &status)
		e.Level = view.ExecutionLevel(slices.Index(view.LevelNames[:], status.Level))
	}
	p.lookup(e)
}
