//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// keyWatch finds the signatures of a validator key in the messages that pass a tierTap. It finds
// them by verification, in messages and in the blocks that contain them, whichever node sent them.
// The tap's mutex guards it.
type keyWatch struct {
	tap    *tierTap
	key    primitives.PublicKey
	judged map[primitives.Signature]bool // signatures that were verified before
	list   []keySignature                // signatures of the key, in the order in which they passed
	tip    uint64                        // height of the highest block that has passed
}

// keySignature is a signature of the key when it first passed.
type keySignature struct {
	kind   string
	height uint64 // height that the message is for; without one, the height after the highest block
	shard  primitives.ShardID
	from   int // node that sent it
}

// The kinds of which a validator may sign only one message for a height, and for a shard of it.
const (
	signedApproval    = "approval"
	signedBlock       = "block"
	signedOptimistic  = "optimistic block"
	signedChunk       = "chunk"
	signedEndorsement = "endorsement"
)

// watchKey watches the validator key in a home folder.
func watchKey(t *testing.T, v *tierTap, dir string) *keyWatch {
	t.Helper()
	k, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := &keyWatch{tap: v, key: k.SecretKey.PublicKey(), judged: map[primitives.Signature]bool{}}
	v.observe = w.observe
	return w
}

// judge records a signature if it is new and of the key. data returns what is signed.
func (w *keyWatch) judge(s keySignature, sig primitives.Signature, data func() []byte) {
	if sig == "" || w.judged[sig] {
		return
	}
	w.judged[sig] = true
	if sig.Verify(data(), w.key) {
		w.list = append(w.list, s)
	}
}

// observe looks for signatures in a message.
func (w *keyWatch) observe(from int, m wire.Message) {
	at := func(kind string, h primitives.Height, shard primitives.ShardID) keySignature {
		return keySignature{kind, uint64(h), shard, from}
	}
	now := func(kind string) keySignature { return keySignature{kind, w.tip + 1, 0, from} }
	chunk := func(c *primitives.ChunkHeader) {
		w.judge(at(signedChunk, c.HeightCreated, c.ShardID), c.Signature,
			func() []byte { h := c.ChunkHash(); return h[:] })
	}
	witness := func(p *primitives.PartialWitness) {
		w.judge(at("witness part", p.HeightCreated, p.ShardID), p.Signature, p.SignedBytes)
	}
	switch m := m.(type) {
	case *wire.Handshake:
		if o := m.OwnedAccount; o != nil {
			w.judge(now("handshake"), o.Signature, func() []byte { return o.Payload })
		}
	case *wire.AccountsData:
		for _, d := range m.Data {
			w.judge(now("account data"), d.Signature, func() []byte { return d.Payload })
		}
	case *wire.RoutingTable:
		for _, a := range m.Accounts {
			w.judge(now("announcement"), a.Signature, func() []byte { h := a.Hash(); return h[:] })
		}
	case *wire.OptimisticBlock:
		o := m.Block
		w.judge(at(signedOptimistic, o.Height, 0), o.Signature, func() []byte { h := o.Hash(); return h[:] })
	case *wire.Block:
		w.block(from, m.Block)
		for _, c := range m.Block.Body.Chunks {
			chunk(c)
		}
	case *wire.Routed:
		switch b := m.Body.(type) {
		case *wire.BlockApproval:
			w.judge(at(signedApproval, b.Target, 0), b.Signature,
				func() []byte { return b.Inner.SignedBytes(b.Target) })
		case *wire.ChunkEndorsement:
			w.judge(at(signedEndorsement, b.Metadata.HeightCreated, b.Metadata.ShardID), b.Signature,
				func() []byte { return primitives.ChunkEndorsementBytes(b.ChunkHash) })
		case *wire.PartialChunk:
			chunk(&b.Header)
		case *wire.PartialWitness:
			witness(&b.PartialWitness)
		case *wire.PartialWitnessForward:
			witness(&b.PartialWitness)
		case *wire.VersionedWitness:
			witness(&b.PartialWitness)
		case *wire.VersionedWitnessForward:
			witness(&b.PartialWitness)
		case *wire.ContractAccesses:
			w.judge(at("contract accesses", b.Key.HeightCreated, b.Key.ShardID), b.Signature, b.SignedBytes)
		case *wire.ContractCodeRequest:
			w.judge(at("contract request", b.Key.HeightCreated, b.Key.ShardID), b.Signature, b.SignedBytes)
		case *wire.ContractCodeResponse:
			w.judge(at("contract response", b.Key.HeightCreated, b.Key.ShardID), b.Signature, b.SignedBytes)
		case *wire.ContractDeploys:
			w.judge(at("contract deploys", b.Key.HeightCreated, b.Key.ShardID), b.Signature, b.SignedBytes)
		}
	}
}

// block looks for the key's signatures of a block, and of the approvals and endorsements in it.
func (w *keyWatch) block(from int, b *primitives.Block) {
	h := b.Header
	w.tip = max(w.tip, uint64(h.Height))
	at := keySignature{signedBlock, uint64(h.Height), 0, from}
	w.judge(at, h.Signature, func() []byte { hash := h.Hash(); return hash[:] })
	at.kind = signedApproval
	for _, sig := range h.Approvals {
		inner := primitives.NewApprovalInner(h.PrevHash, h.PrevHeight, h.Height)
		w.judge(at, sig, func() []byte { return inner.SignedBytes(h.Height) })
	}
	for i, sigs := range b.Body.ChunkEndorsements {
		c := b.Body.Chunks[i]
		for _, sig := range sigs {
			w.judge(keySignature{signedEndorsement, uint64(c.HeightCreated), c.ShardID, from}, sig,
				func() []byte { return primitives.ChunkEndorsementBytes(c.ChunkHash()) })
		}
	}
}

// number returns the number of signatures so far.
func (w *keyWatch) number() int {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	return len(w.list)
}

// since returns the signatures after the first n.
func (w *keyWatch) since(n int) []keySignature {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	return slices.Clone(w.list[n:])
}

// kinds counts signatures by kind.
func kinds(list []keySignature) map[string]int {
	out := map[string]int{}
	for _, s := range list {
		out[s.kind]++
	}
	return out
}

// lowest returns the signature for the lowest height.
func lowest(list []keySignature) keySignature {
	return slices.MinFunc(list, func(a, b keySignature) int { return int(a.height) - int(b.height) })
}

// contradictions returns the messages of which the key signed two for one height and shard.
func (w *keyWatch) contradictions() (out []string) {
	number := map[keySignature]int{}
	for _, s := range w.since(0) {
		switch s.from = 0; s.kind {
		case signedApproval, signedBlock, signedOptimistic, signedChunk, signedEndorsement:
			number[s]++
		}
	}
	for s, n := range number {
		if n > 1 {
			out = append(out, fmt.Sprintf("%d times %s at %d, shard %d", n, s.kind, s.height, s.shard))
		}
	}
	slices.Sort(out)
	return out
}

// signs waits until the key has signed an approval, a block and an endorsement after its first n
// signatures, and until three blocks of its account after height are on the chain. It returns these
// signatures.
func (b *mixedCluster) signs(w *keyWatch, n int, account string, height uint64, within time.Duration) []keySignature {
	b.t.Helper()
	made, next := 0, height+1
	for limit := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		for to := b.highest(); next <= to; next++ {
			var x struct {
				Author string `json:"author"`
			}
			if r, err := b.p[0].call("block", map[string]any{"block_id": next}); err == nil && r.Error == nil &&
				json.Unmarshal(r.Result, &x) == nil && x.Author == account {
				made++
			}
		}
		list := w.since(n)
		got := kinds(list)
		if made >= 3 && got[signedApproval] > 0 && got[signedBlock] > 0 && got[signedEndorsement] > 0 {
			b.t.Logf("heights %d to %d: %d blocks of %s on the chain, new signatures of its key: %v",
				height+1, next-1, made, account, got)
			return list
		}
		if time.Now().After(limit) {
			b.t.Fatalf("heights %d to %d have %d blocks of %s, want 3; new signatures of its key: %v",
				height+1, next-1, made, account, got)
		}
	}
}

// endorsed returns how many endorsements of a validator the current epoch's blocks have.
func (b *mixedCluster) endorsed(account string) int {
	b.t.Helper()
	var v struct {
		Current []producerCounters `json:"current_validators"`
	}
	b.p[0].get("validators", []any{nil}, &v)
	for _, x := range v.Current {
		if x.Account == account {
			return x.Endorsed
		}
	}
	b.t.Fatalf("%s is no validator", account)
	return 0
}

// keyWait returns the wait in a node's status; nil: its key does not wait.
func (p *process) keyWait() *keyWaitStatus {
	p.t.Helper()
	var s struct {
		KeyWait *keyWaitStatus `json:"key_wait"`
	}
	p.get("status", []any{}, &s)
	return s.KeyWait
}

type keyWaitStatus struct {
	Left uint64 `json:"blocks_left"`
	From uint64 `json:"from_height"`
}

// otherMachine makes a home folder for a troupe with the configuration and validator key of
// another home folder. It has its own node key and address, and no data.
func otherMachine(t *testing.T, of nodeHome) nodeHome {
	t.Helper()
	s := nodeHome{home: joined(t, of.home), network: freeAddr(t), rpc: freeAddr(t)}
	for _, name := range []string{"config.json", "validator_key.json"} {
		write(t, filepath.Join(s.home, name), string(mustRead(t, filepath.Join(of.home, name))))
	}
	return newNodeHomeAt(t, s, nil)
}

// TestMixedValidatorKeyMovesToTroupeAndBack: three neards and a troupe validate. One neard is
// killed, and a troupe with an empty data folder begins with its validator key. Until its
// new_key_wait_blocks are over it signs nothing. Then it makes blocks, and its endorsements are in
// blocks. After that it stops, and the neard takes the key back. The key never signs two messages
// that contradict each other, no neard complains, and the chain goes on.
func TestMixedValidatorKeyMovesToTroupeAndBack(t *testing.T) {
	const n, shards, moved, wait = 4, 4, 2, 30
	const epoch = 2000 // no epoch ends: a validator that is away would be kicked out
	v := newTierTap(t)
	b := &mixedCluster{t: t, program: neardOrNone(t), neards: n - 1, shards: shards, p: make([]*process, n)}
	if b.program == "" {
		b.neards = 0
	}
	b.homes = neardNet(t, b.program, n, shards, epoch)
	account := fmt.Sprintf("node%d", moved)
	w := watchKey(t, v, b.homes[moved].home)
	announced := v.announce(t, b.homes)
	for i, s := range b.homes {
		change(t, filepath.Join(s.home, "config.json"), func(c object) { c.at("consensus")["min_num_peers"] = n - 2 })
		b.start(i)
	}
	b.until(3, 3*time.Minute)
	height := b.highest()
	list := b.signs(w, 0, account, height, 5*time.Minute)
	if kinds(list)[signedChunk] == 0 {
		t.Errorf("the tap found no chunk of %s", account)
	}

	old := b.p[moved]
	old.end(syscall.SIGKILL)
	height = b.highest()
	b.until(height+5, 3*time.Minute) // all that it has sent has passed
	before, endorsed := w.number(), b.endorsed(account)
	s := otherMachine(t, b.homes[moved])
	key := keyOf(t, s.home)
	own := key.String() + "@" + v.before(t, n, key, s.network)
	announce(t, s, own, slices.Delete(announced, moved, moved+1))
	change(t, filepath.Join(s.home, "config.json"), func(c object) {
		c.at("troupe", "validator")["new_key_wait_blocks"] = wait
	})
	from := b.highest()
	b.homes, b.p = append(b.homes, s), append(b.p, nil)
	b.start(n)
	troupe := b.p[n]
	begins := uint64(0)
	for limit := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		state := troupe.keyWait()
		switch {
		case state == nil && begins > 0:
		case time.Now().After(limit):
			t.Fatalf("the key does not wait until a block, or for too long: %+v at %d", state, troupe.final())
		case state == nil || state.From == 0: // status does not show the wait yet, or no new block has arrived
			continue
		case begins == 0:
			begins = state.From
			t.Logf("%s moved to a troupe at %d; it begins to sign at %d", account, from, begins)
			continue
		case state.From != begins:
			t.Fatalf("the wait's end moved from %d to %d", begins, state.From)
		default:
			continue
		}
		break
	}
	if begins < from+wait {
		t.Errorf("the key waits until %d, want %d or more: the chain was at %d when the node began", begins, from+wait, from)
	}
	list = b.signs(w, before, account, begins, 5*time.Minute)
	if first := lowest(list); first.height <= begins {
		t.Errorf("the key signed at %d in its wait, which ends at %d: %+v", first.height, begins, first)
	}
	if now := b.endorsed(account); now <= endorsed {
		t.Errorf("blocks contain %d endorsements of %s, as before its move", now, account)
	} else {
		t.Logf("blocks contain %d more endorsements of %s", now-endorsed, account)
	}

	troupe.stop(syscall.SIGTERM)
	all := w.since(0)
	last := slices.MaxFunc(all, func(a, b keySignature) int { return int(a.height) - int(b.height) }).height
	b.until(last+3, 3*time.Minute)
	before, endorsed, height = w.number(), b.endorsed(account), b.highest()
	b.start(moved)
	list = b.signs(w, before, account, height, 5*time.Minute)
	t.Logf("%s is back on its %s, whose first signature is for %d", account, b.kind(moved), lowest(list).height)
	if now := b.endorsed(account); now <= endorsed {
		t.Errorf("blocks contain %d endorsements of %s, as before its return", now, account)
	}

	if bad := w.contradictions(); len(bad) > 0 {
		t.Errorf("%d signatures contradict each other: %s", len(bad), strings.Join(bad[:min(len(bad), 10)], "; "))
	}
	t.Logf("signatures of the key: %v", kinds(w.since(0)))
	b.until(b.highest(), time.Minute)
	height = b.highest() - 2
	hashes := map[string]int{}
	for i, p := range b.p {
		if i == n { // it has ended
			continue
		}
		var at head
		p.get("block", map[string]any{"block_id": height}, &at)
		hashes[at.Header.Hash]++
	}
	if len(hashes) != 1 {
		t.Errorf("the nodes have several blocks %d: %v", height, slices.Collect(maps.Keys(hashes)))
	}
	for i, p := range append(slices.Clone(b.p[:b.neards]), old) {
		if b.neards == 0 {
			break
		}
		if said := complaints(p.out.String()); len(said) > 0 {
			t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(said), strings.Join(said[:min(len(said), 5)], "\n"))
		}
	}
	if got := b.p[n-1].metric("troupe_network_bans_total"); got != 0 {
		t.Errorf("the troupe banned %v peers, want 0", got)
	}
}
