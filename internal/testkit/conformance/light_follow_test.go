package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/lightclient"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// call calls a method of a world and returns the result's JSON.
func (w *world) call(method string, params any) json.RawMessage {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	w.must(err)
	got, err := w.client(Request{Method: "POST", Path: "/", Body: string(body)})
	w.must(err)
	var reply struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(got.Body), &reply); err != nil || got.Status != 200 || reply.Result == nil {
		w.t.Fatalf("%s: status %d, body %.400s", method, got.Status, got.Body)
	}
	return reply.Result
}

// into reads JSON.
func into[T any](t *testing.T, text []byte) *T {
	t.Helper()
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	return out
}

// unproven are members of replies that no proof covers: metadata of outcomes, and a duplicate of a
// timestamp.
var unproven = []string{"metadata", "timestamp"}

// spoil returns all variants of a JSON value in which one text or number differs, or one list lacks
// an item, by the path of the change.
func spoil(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	var root any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	var walk func(at string, v any, set func(any))
	walk = func(at string, v any, set func(any)) {
		try := func(other any) {
			set(other)
			changed, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprint(at, " ", other)] = changed
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if !slices.Contains(unproven, k) {
					walk(at+"."+k, x, func(y any) { v[k] = y })
				}
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), x, func(y any) { v[i] = y })
			}
			if n := len(v); n > 0 { // and one less
				set(v[:n-1])
				changed, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				out[at+" without its last"] = changed
				set(v)
			}
		case string:
			switch { // another digit in the middle, or the other direction
			case v == "Left":
				try("Right")
			case v == "Right":
				try("Left")
			case v != "":
				i := len(v) / 2
				other := byte('2')
				if v[i] == other {
					other = '3'
				}
				try(v[:i] + string(other) + v[i+1:])
			}
		case json.Number:
			n, err := v.Int64()
			if err == nil {
				try(n + 1)
			}
		}
	}
	walk("", root, func(any) {})
	return out
}

// TestLightClientRefusesChangedReplies: a light client follows a sandbox over three epochs and
// verifies a transaction, a receipt and a value of the state. No value in any of these replies can
// be changed without a refusal.
func TestLightClientRefusesChangedReplies(t *testing.T) {
	files, _ := load(t)
	g := recordedGenesis(t, &files["wire"][81], nil)
	keys := map[primitives.AccountID]primitives.SecretKey{}
	billion := primitives.MustParseBalance("1000000000000000000000000000000000")
	key, value := []byte("k"), []byte("a value of the state")
	records := []genesis.Record{
		account(root, billion, g.Validators[0].Amount), keyOf(keys, root, WireSeeds[0], 0), account("near", billion, primitives.Balance{}),
		keyOf(keys, "near", "near", 0), &genesis.DataRecord{AccountID: "near", Key: key, Value: value},
		&genesis.DataRecord{AccountID: "near", Key: []byte("k2"), Value: []byte("another")},
	}
	w := newWorld(t, g, records, 100_000)
	w.keys = keys
	w.mine(5)

	// The trusted input: a block and the block producers.
	trusted := into[struct {
		Header lightclient.Header `json:"block_header_lite"`
	}](t, w.call("EXPERIMENTAL_light_client_block_proof", []string{w.hash(2), w.engine.Final().Hash.String()})).Header
	first := *into[[]lightclient.Producer](t, w.call("EXPERIMENTAL_validators_ordered", []any{nil}))
	c := &lightclient.Client{Head: trusted, Producers: map[primitives.EpochID][]lightclient.Producer{trusted.Inner.EpochID: first, trusted.Inner.NextEpochID: first}}
	if h, err := c.Head.Hash(); err != nil || h.String() != w.hash(2) {
		t.Fatalf("the trusted block hashes to %v, %v, and is %s", h, err, w.hash(2))
	}
	epochs, steps, refused := map[primitives.EpochID]bool{}, 0, 0
	for height := primitives.Height(10); height <= 200; height += 10 {
		w.mine(height)
		for {
			at, _ := c.Head.Hash()
			next := w.call("next_light_client_block", []string{at.String()})
			if string(next) == "{}" {
				break
			}
			for what, other := range spoil(t, next) {
				liar := &lightclient.Client{Head: c.Head, Producers: map[primitives.EpochID][]lightclient.Producer{}}
				for k, v := range c.Producers {
					liar.Producers[k] = v
				}
				if err := liar.Advance(other); err == nil {
					t.Errorf("accepted with another %s", what)
				}
				refused++
			}
			before := c.Head.Inner.Height
			if err := c.Advance(next); err != nil {
				t.Fatalf("after height %d: %v", before, err)
			}
			epochs[c.Head.Inner.EpochID] = true
			steps++
			if c.Head.Inner.Height+5 > height { // it has the last final block
				break
			}
		}
	}
	if steps < 10 || len(epochs) < 3 || refused < 100 {
		t.Errorf("%d steps over %d epochs, %d refused", steps, len(epochs), refused)
	}
	w.proveOutcomes(c)
	w.proveState(c, "near", key, value)
}

// proveOutcomes proves a transaction and its receipt to a light client.
func (w *world) proveOutcomes(c *lightclient.Client) {
	w.t.Helper()
	tx := w.send("near", root, 1, &primitives.Transfer{Deposit: primitives.NEAR(1)})
	w.mine(230)
	out := w.succeeded(tx)
	head := w.follow(c)
	for _, ask := range []map[string]any{
		{"type": "transaction", "transaction_hash": tx.String(), "sender_id": "near", "light_client_head": head.String()},
		{"type": "receipt", "receipt_id": out.Outcome.ReceiptIDs[0].String(), "receiver_id": root, "light_client_head": head.String()},
	} {
		reply := w.call("light_client_proof", ask)
		p, err := lightclient.ProvenOutcome(c.Head.Inner.BlockMerkleRoot, reply, true)
		if err != nil {
			w.t.Fatalf("%v: error %v", ask, err)
		}
		if id := p.Outcome.ID.String(); id != ask["transaction_hash"] && id != ask["receipt_id"] {
			w.t.Errorf("%v: the outcome is of %s", ask, id)
		}
		spoiled := spoil(w.t, reply)
		if len(spoiled) < 20 {
			w.t.Errorf("%v: spoiled in %d ways only", ask["type"], len(spoiled))
		}
		for what, other := range spoiled {
			if _, err := lightclient.ProvenOutcome(c.Head.Inner.BlockMerkleRoot, other, true); err == nil {
				w.t.Errorf("%v: accepted with another %s", ask["type"], what)
			}
		}
	}
}

// follow advances a light client to the last available block and returns its hash.
func (w *world) follow(c *lightclient.Client) primitives.Hash {
	w.t.Helper()
	for {
		at, err := c.Head.Hash()
		w.must(err)
		next := w.call("next_light_client_block", []string{at.String()})
		if string(next) == "{}" {
			return at
		}
		w.must(c.Advance(next))
	}
}

// proveState proves a value of the state to a light client: the block that contains the result of
// another, the chunk with the state root, and the path from the root to the value.
func (w *world) proveState(c *lightclient.Client, account primitives.AccountID, key, value []byte) {
	w.t.Helper()
	height := w.engine.Head().Height() // the state root is in the next block
	reply := w.call("query", map[string]any{"request_type": "view_state", "block_id": height, "account_id": account, "prefix_base64": "", "include_proof": true})
	w.mine(height + 6)
	head := w.follow(c)
	proof := into[struct {
		Header lightclient.Header    `json:"block_header_lite"`
		Path   primitives.MerklePath `json:"block_proof"`
	}](w.t, w.call("EXPERIMENTAL_light_client_block_proof", []string{w.hash(height + 1), head.String()}))
	if _, err := lightclient.ProvenBlock(c.Head.Inner.BlockMerkleRoot, &proof.Header, proof.Path); err != nil {
		w.t.Fatal(err)
	}
	block := into[struct {
		Chunks []struct {
			Root primitives.Hash `json:"prev_state_root"`
		}
	}](w.t, w.call("block", map[string]any{"block_id": height + 1}))
	var roots []primitives.Hash
	for _, chunk := range block.Chunks {
		roots = append(roots, primitives.HashBytes(chunk.Root[:]))
	}
	if all, _ := primitives.Merklize(roots); all != proof.Header.Inner.PrevStateRoot {
		w.t.Fatalf("the chunks' state roots make %v, the proven header has %v", all, proof.Header.Inner.PrevStateRoot)
	}
	root := block.Chunks[0].Root
	state := into[struct {
		Values []struct{ Key, Value []byte }
		Proof  []string
	}](w.t, reply)
	if len(state.Values) != 2 || !bytes.Equal(state.Values[0].Value, value) {
		w.t.Fatalf("reply %s", reply)
	}
	at := primitives.AppendContractDataKey(nil, account, key)
	if got, err := lightclient.ProvenValue(root, state.Proof, at, state.Values[0].Value); err != nil || !bytes.Equal(got, value) {
		w.t.Fatalf("%q is not proven: %q, %v", key, got, err)
	}
	if got, err := lightclient.ProvenValue(root, state.Proof, primitives.AppendContractDataKey(nil, account, []byte("k3")), nil); err != nil || got != nil {
		w.t.Errorf("no proof of absence of k3: %q, %v", got, err)
	}
	if _, err := lightclient.ProvenValue(root, state.Proof, at, []byte("a value of the stat\x00")); err == nil {
		w.t.Error("another value is taken")
	}
	onPath := 0
	for i := range state.Proof {
		for _, bit := range []int{0, len(state.Proof[i]) / 2} {
			other := slices.Clone(state.Proof)
			raw := []byte(other[i])
			if raw[bit] ^= 1; raw[bit] == '=' {
				continue
			}
			other[i] = string(raw)
			if got, err := lightclient.ProvenValue(root, other, at, value); err == nil {
				if !bytes.Equal(got, value) {
					w.t.Errorf("%q with another node %d", got, i)
				}
				continue // a node that is not on the path
			}
			onPath++
		}
	}
	if onPath < 2 {
		w.t.Errorf("%d nodes matter", onPath)
	}
}

var real = testutil.Data("real/")

// readJSON reads a file, plain or gzip.
func readJSON[T any](t *testing.T, path string) *T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return into[T](t, text)
}

// TestLightClientFollowsMainnetSteps: the light client accepts collected steps and proofs of
// mainnet and testnet, and refuses forged ones.
func TestLightClientFollowsMainnetSteps(t *testing.T) {
	if _, err := os.Stat(real); err != nil {
		t.Skip("blocks of public networks are not part of the repository (docs/dev/testing.md): ", err)
	}
	type step struct {
		Description string
		Expected    struct {
			Valid bool `json:"is_valid"`
		}
		Params struct {
			Previous   lightclient.Block      `json:"previous_block"`
			CurrentBPs []lightclient.Producer `json:"current_bps"`
			NextBPs    []lightclient.Producer `json:"next_bps"`
			NewBlock   json.RawMessage        `json:"new_block"`
		}
	}
	taken, refused := 0, 0
	paths, err := filepath.Glob(real + "light-client-vectors/blocks/*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		for _, s := range *readJSON[[]step](t, path) {
			p := &s.Params
			c := &lightclient.Client{Head: p.Previous.Header, Producers: map[primitives.EpochID][]lightclient.Producer{}}
			known := c.Head.Inner
			c.Producers[known.NextEpochID] = p.Previous.NextBPs
			if p.NextBPs != nil {
				c.Producers[known.NextEpochID] = p.NextBPs
			}
			if p.CurrentBPs != nil { // of the new block's epoch
				c.Producers[known.EpochID], c.Producers[known.NextEpochID] = p.CurrentBPs, p.CurrentBPs
			}
			switch err := c.Advance(p.NewBlock); {
			case (err == nil) != s.Expected.Valid:
				t.Errorf("%s: description %s, error %v", filepath.Base(path), s.Description, err)
			case err == nil:
				taken++
			default:
				refused++
			}
		}
	}
	for _, net := range []string{"main", "test"} { // three epochs in a row
		var c *lightclient.Client
		for i := range 3 {
			f := readJSON[struct {
				Last primitives.Hash `json:"last_block_hash"`
				Body json.RawMessage
			}](t, fmt.Sprintf("%slight-client-next/%s_%d.json", real, net, i))
			b := into[lightclient.Block](t, f.Body)
			if c == nil {
				c = &lightclient.Client{Head: b.Header, Producers: map[primitives.EpochID][]lightclient.Producer{b.Inner.NextEpochID: b.NextBPs}}
				continue
			}
			if err := c.Advance(f.Body); err != nil {
				t.Errorf("%s %d: error %v", net, i, err)
				continue
			}
			taken++
		}
	}
	type execution struct {
		Description string
		Expected    struct {
			Valid bool `json:"is_valid"`
		}
		Params struct {
			Proof json.RawMessage
			Root  primitives.Hash `json:"block_merkle_root"`
		}
	}
	proofs := 0
	for _, name := range []string{"rainbow-bridge-vectors.json", "invalid-manual.json"} {
		for _, x := range *readJSON[[]execution](t, real+"light-client-vectors/executions/"+name) {
			_, err := lightclient.ProvenOutcome(x.Params.Root, x.Params.Proof, false)
			if (err == nil) != x.Expected.Valid {
				t.Errorf("%s: error %v", x.Description, err)
			}
			proofs++
		}
	}
	if taken < 92+4 || refused < 6 || proofs != 9 {
		t.Errorf("%d steps taken, %d refused, %d proofs", taken, refused, proofs)
	}
}
