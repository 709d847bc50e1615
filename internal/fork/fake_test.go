package fork

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage/trie"
)

const app primitives.AccountID = "app.near"

// fake is a node of another chain: three blocks of one shard, and the state after the second, which
// is to be forked.
type fake struct {
	t      *testing.T
	root   *trie.Root
	values map[string]string // the storage of app
	code   []byte
	blocks []*primitives.Block // heights 10, 11, 12

	mu       sync.Mutex
	requests int
	methods  map[string]int // by request_type for queries
	spoil    func(method string, body []byte, n int) (status int, out []byte, header http.Header)
	batches  bool
	large    bool
	noProofs bool
	chain    string
	keys     []view.KeyInfo // of app, returned page by page; nil: it has one key
	stuck    bool           // every page of keys is the first one
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, values: map[string]string{}, methods: map[string]int{}, code: []byte("\x00asm\x01\x00\x00\x00"), batches: true, chain: "other"}
	for i := range 60 {
		f.values[fmt.Sprintf("key %d", i*i)] = fmt.Sprintf("value %d", i)
	}
	f.values[""] = "of the empty key"
	var changes []trie.Change
	put := func(key []byte, value string) { changes = append(changes, trie.Change{Key: key, Value: []byte(value)}) }
	for _, a := range []primitives.AccountID{"app", app, "app.near2", "zoe.near"} {
		put(primitives.AppendAccountKey(nil, a), "an account")
	}
	put(primitives.AppendContractDataKey(nil, "app", []byte("x")), "another's")
	put(primitives.AppendContractDataKey(nil, "zoe.near", []byte("x")), "another's")
	for k, v := range f.values {
		put(primitives.AppendContractDataKey(nil, app, []byte(k)), v)
	}
	slices.SortFunc(changes, func(a, b trie.Change) int { return bytes.Compare(a.Key, b.Key) })
	forest := trie.New(trie.Options{})
	var err error
	if f.root, err = forest.Update(forest.Empty(), changes, nil); err != nil {
		t.Fatal(err)
	}
	prev := primitives.Hash{7}
	for height := primitives.Height(10); height <= 12; height++ {
		root := primitives.HashBytes([]byte{byte(height)})
		if height == 12 {
			root = f.root.Hash()
		}
		h := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: prev, Signature: primitives.ZeroED25519Signature}
		h.Height, h.PrevStateRoot, h.Timestamp = height, primitives.HashBytes(root[:]), 1_700_000_000_000_000_000+uint64(height)
		h.ChunkMask, h.NextGasPrice, h.TotalSupply = []bool{true}, primitives.Yocto(100_000_000), primitives.NEAR(1)
		h.LatestProtocolVersion, h.ChunkEndorsements = 86, [][]byte{{1}}
		h.Init()
		c := &primitives.ChunkHeader{Signature: primitives.ZeroED25519Signature, HeightIncluded: height}
		c.PrevStateRoot, c.GasLimit = root, 1_000_000_000_000_000
		f.blocks = append(f.blocks, &primitives.Block{Header: h, Body: primitives.BlockBody{Chunks: []*primitives.ChunkHeader{c}}})
		prev = h.Hash()
	}
	return f
}

// pinned is the block that is forked.
func (f *fake) pinned() primitives.Hash { return f.blocks[1].Header.Hash() }

// RoundTrip answers a request.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	type request struct {
		ID     uint64
		Method string
		Params json.RawMessage
	}
	var list []request
	batch := body[0] == '['
	if !batch {
		body = append(append([]byte("["), body...), ']')
	}
	if err := json.Unmarshal(body, &list); err != nil {
		f.t.Errorf("a request that is no JSON-RPC: %s", body)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	n := f.requests
	status, header := http.StatusOK, http.Header{}
	var out []byte
	name := ""
	for i, q := range list {
		if i > 0 {
			out = append(out, ',')
		}
		name = q.Method
		out = fmt.Appendf(out, `{"jsonrpc":"2.0","id":%d,%s}`, q.ID, f.answer(&name, q.Params))
	}
	switch {
	case batch && !f.batches:
		status, out = http.StatusBadRequest, []byte(`{"jsonrpc":"2.0","error":{"code":-32700,"name":"REQUEST_VALIDATION_ERROR"},"id":null}`)
	case batch:
		out = append(append([]byte("["), out...), ']')
	}
	if f.spoil != nil {
		if s, o, h := f.spoil(name, out, n); s != 0 {
			if s < 0 { // it never answers
				f.mu.Unlock()
				<-r.Context().Done()
				f.mu.Lock()
				return nil, r.Context().Err()
			}
			status, out = s, o
			if h != nil {
				header = h
			}
		}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(out)), Request: r}, nil
}

func fault(name string) string {
	return `"error":{"name":"HANDLER_ERROR","cause":{"name":"` + name + `","info":{}},"code":-32000,"message":"Server error","data":"no"}`
}

// answer is what a method answers; of queries it names the kind.
func (f *fake) answer(method *string, params json.RawMessage) string {
	var p struct {
		Type    string               `json:"request_type"`
		Account primitives.AccountID `json:"account_id"`
		Block   json.RawMessage      `json:"block_id"`
		Final   string               `json:"finality"`
		Prefix  string               `json:"prefix_base64"`
		Proof   bool                 `json:"include_proof"`
		Key     string               `json:"public_key"`
		After   string               `json:"after_key"`
		Limit   int                  `json:"limit"`
	}
	_ = json.Unmarshal(params, &p)
	f.methods[*method+p.Type]++
	at := f.blocks[1]
	if *method == "block" || *method == "query" {
		found := p.Final != ""
		for _, b := range f.blocks {
			if string(p.Block) == fmt.Sprint(b.Header.Height) || string(p.Block) == `"`+b.Header.Hash().String()+`"` {
				at, found = b, true
			}
		}
		if !found {
			return fault("UNKNOWN_BLOCK")
		}
	}
	switch *method {
	case "status":
		return `"result":{"chain_id":"` + f.chain + `"}`
	case "EXPERIMENTAL_protocol_config":
		return `"result":{"chain_id":"` + f.chain + `","protocol_version":86,"max_gas_price":"10000000000000000000000","shard_layout":{"V2":{"boundary_accounts":[],"shard_ids":[0],"id_to_index_map":{"0":0},"index_to_id_map":{"0":0},"shards_split_map":null,"shards_parent_map":null,"version":0}}}`
	case "block":
		return `"result":` + string(view.AppendBlock(nil, "v.near", at))
	case "query":
	default:
		return fault("METHOD_NOT_FOUND")
	}
	*method = p.Type
	if p.Account != app {
		return fault("UNKNOWN_ACCOUNT")
	}
	ref := &view.At{Height: at.Header.Height, Hash: at.Header.Hash()}
	hash := primitives.HashBytes(f.code)
	switch p.Type {
	case "view_account":
		return `"result":` + string(view.AppendQueryAccount(nil, &primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(5), StorageUsage: 321,
			Contract: primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash}}, ref))
	case "view_code":
		return `"result":` + string(view.AppendQueryCode(nil, f.code, &hash, ref))
	case "view_access_key":
		if p.Key != primitives.ZeroED25519Key.String() {
			return `"result":` + string(view.AppendQueryError(nil, "access key "+p.Key+" does not exist while viewing", nil, ref))
		}
		return `"result":` + string(view.AppendQueryAccessKey(nil, &primitives.AccessKey{Nonce: 77}, ref))
	case "view_access_key_list":
		if f.keys != nil { // a node that returns two keys at a time
			if p.After == "" && p.Limit == 0 {
				return fault("TOO_MANY_ACCESS_KEYS")
			}
			page := f.keys
			for i := range page {
				if page[i].Handle.String() == p.After && !f.stuck {
					page = page[i+1:]
					break
				}
			}
			n := min(len(page), min(p.Limit, 2))
			return `"result":` + string(view.AppendQueryAccessKeyList(nil, page[:n], n < len(page), ref))
		}
		return `"result":` + string(view.AppendQueryAccessKeyList(nil, []view.KeyInfo{{Handle: primitives.ZeroED25519Key.Handle(), AccessKey: primitives.AccessKey{Nonce: 77}}}, false, ref))
	case "view_state":
		prefix, _ := base64.StdEncoding.DecodeString(p.Prefix)
		if f.large && len(prefix) == 0 {
			return fault("TOO_LARGE_CONTRACT_STATE")
		}
		if p.Proof && f.noProofs {
			return fault("PROOF_UNAVAILABLE")
		}
		page := &view.StatePage{}
		s := f.root.ScanProven(primitives.AppendContractDataKey(nil, app, prefix))
		for s.Next() {
			page.Items = append(page.Items, view.StateItem{Key: s.Key()[len(primitives.AppendContractDataKey(nil, app, nil)):], Value: s.Value()})
		}
		if p.Proof {
			page.Proof = s.Proof()
		}
		return `"result":` + string(view.AppendQueryState(nil, page, ref))
	}
	return fault("METHOD_NOT_FOUND")
}

func (f *fake) options() Options {
	return Options{URL: "http://other/", Transport: f, Timeout: 100 * time.Millisecond, Tries: 3, Pause: time.Millisecond}
}

// base forks it.
func (f *fake) base(o Options) *Base {
	f.t.Helper()
	c := NewClient(o)
	f.t.Cleanup(c.Close)
	pin, err := c.Resolve(Spec{URL: o.URL, Height: 11})
	if err != nil {
		f.t.Fatal(err)
	}
	return NewBase(c, pin)
}

func dataKey(k string) []byte { return primitives.AppendContractDataKey(nil, app, []byte(k)) }
