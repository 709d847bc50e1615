package fork

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Base reads the state of the forked chain. Base implements engine.RemoteState and is safe for
// concurrent use.
type Base struct {
	*Client
	pin   *Pin
	disk  diskCache
	blame func(error)

	mu      sync.Mutex
	known   map[place]*answer
	size    int64 // bytes of the answers in known
	flights map[place]*flight
	blocks  map[primitives.Hash]*Anchor
	heights map[primitives.Hash]seen // heights of blocks that transactions name
	stats   Stats
	warned  map[string]bool
}

// The errors of a Base wrap ErrAway if the remote node does not answer, or if the node's answer
// cannot be verified.
var ErrAway = state.ErrAway

// place is a question and the block about whose state Base asks that question.
type place struct {
	at primitives.Hash
	ask
}

type flight struct {
	done chan struct{}
	a    *answer
	err  error
}

// Anchor is a block of the forked chain: height, shard layout and state roots of the block.
type Anchor struct {
	Height primitives.Height
	Layout primitives.ShardLayout
	*Confirmed
}

type seen struct {
	height primitives.Height
	ok     bool
}

// maxHeights is the maximum number of cached heights of blocks that transactions name.
const maxHeights = 4096

// Stats count how the reads of a fork's remote state were answered.
type Stats struct {
	Counts
	Proven, Unproven uint64 // answers of the remote node that this node accepted
	Memory, Disk     uint64 // questions answered from the cache
	LastError        string // error of the last failure; empty: none since the last answer
	FailedAt         time.Time
}

// NewBase returns the remote state of a pinned block.
func NewBase(c *Client, pin *Pin) *Base {
	b := &Base{Client: c, pin: pin, disk: diskCache{c.o.Cache}, blame: c.o.Warn, known: map[place]*answer{}, flights: map[place]*flight{},
		heights: map[primitives.Hash]seen{}, warned: map[string]bool{}}
	b.blocks = map[primitives.Hash]*Anchor{pin.Hash: {Height: pin.Height, Layout: pin.Layout, Confirmed: pin.Confirmed}}
	b.heights[pin.Hash] = seen{pin.Height, true}
	if b.blame == nil {
		b.blame = func(error) {}
	}
	return b
}

// Pin returns the pinned block.
func (b *Base) Pin() *Pin { return b.pin }

// Pinned returns the hash of the pinned block.
func (b *Base) Pinned() primitives.Hash { return b.pin.Hash }

// Stats returns the counts.
func (b *Base) Stats() Stats {
	counts := b.Counts()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Counts = counts
	return s
}

// Again waits before a failed question is retried. Again returns false if this node stops.
func (b *Base) Again(err error) bool {
	if errors.Is(err, errClosed) || b.ctx.Err() != nil {
		return false
	}
	b.blame(fmt.Errorf("a block of the fork waits for remote state, retrying: %w", err))
	select {
	case <-time.After(time.Second):
		return true
	case <-b.ctx.Done():
		return false
	}
}

// away wraps the error of a question without a credible answer in state.ErrAway.
func (b *Base) away(what string, at primitives.Hash, err error) error {
	full := fmt.Errorf("fork: %s at block %v: %w: %w", what, at, state.ErrAway, err)
	b.mu.Lock()
	b.stats.LastError, b.stats.FailedAt = full.Error(), time.Now()
	if errors.Is(err, errForged) || errors.Is(err, errOther) || errors.Is(err, errCode) || errors.Is(err, ErrBlockGone) ||
		errors.Is(err, ErrChain) {
		b.mu.Unlock()
		b.add(func(n *Counts) { n.Refused++ })
		return full
	}
	b.mu.Unlock()
	return full
}

// anchor returns a block's height, shard layout and state roots.
func (b *Base) anchor(at primitives.Hash) (*Anchor, error) {
	b.mu.Lock()
	a := b.blocks[at]
	b.mu.Unlock()
	if a != nil && a.Confirmed != nil {
		return a, nil
	}
	if a == nil {
		in, err := b.Call("block", map[string]any{"block_id": at})
		if err != nil {
			return nil, b.away("the block", at, err)
		}
		v, err := parseBlock(in)
		if err == nil && v.Hash() != at {
			err = errOther
		}
		if err != nil {
			return nil, b.away("the block", at, err)
		}
		a = &Anchor{Height: v.Header.Height, Layout: b.pin.Layout}
		if sameShards(v, a.Layout) != nil {
			// The layout is unknown, so an account's shard is too.
			a.Layout, a.Confirmed = primitives.ShardLayout{}, &Confirmed{}
		}
	}
	if a.Confirmed == nil {
		next, err := b.confirm(at, a.Height, a.Layout)
		if err != nil {
			return nil, b.away("the next block", at, err)
		}
		a = &Anchor{Height: a.Height, Layout: a.Layout, Confirmed: next}
	}
	b.mu.Lock()
	b.blocks[at] = a
	b.mu.Unlock()
	return a, nil
}

// root returns the state root of an account's shard after a block; nil if the root is unknown.
func (a *Anchor) root(id primitives.AccountID) *primitives.Hash {
	if a.Confirmed == nil || a.Layout.IsZero() {
		return nil
	}
	if h, ok := a.Roots[a.Layout.ShardOf(id)]; ok {
		return &h
	}
	return nil
}

// look answers a question: from memory, from disk, from an equal request already under way, or from
// the remote node.
func (b *Base) look(at primitives.Hash, q ask) (*answer, error) {
	p := place{at, q}
	b.mu.Lock()
	if a := b.known[p]; a != nil {
		b.stats.Memory++
		b.mu.Unlock()
		return a, nil
	}
	f := b.flights[p]
	if f != nil {
		b.mu.Unlock()
		<-f.done
		return f.a, f.err
	}
	f = &flight{done: make(chan struct{})}
	b.flights[p] = f
	b.mu.Unlock()
	f.a, f.err = b.fetch(p)
	b.mu.Lock()
	delete(b.flights, p)
	if f.err == nil {
		if b.size += f.a.size; b.size > b.o.Memory { // drop everything: needed answers are read from disk again
			clear(b.known)
			b.size = f.a.size
		}
		b.known[p] = f.a
	}
	b.mu.Unlock()
	close(f.done)
	return f.a, f.err
}

func (b *Base) fetch(p place) (*answer, error) {
	an, err := b.anchor(p.at)
	if err != nil {
		return nil, err
	}
	root := an.root(p.account)
	if raw := b.disk.get(p.at, p.ask.String()); raw != nil {
		s := new(stored)
		if err := json.Unmarshal(raw, s); err == nil {
			if a, err := p.read(s, p.at, an.Height, root); err == nil && (a.proof != nil || !b.mustProve(p.ask, a)) {
				b.took(p, a, func(s *Stats) { s.Disk++ })
				return a, nil
			}
		}
	}
	s, err := b.reply(p)
	var a *answer
	if err == nil {
		a, err = p.read(s, p.at, an.Height, root)
	}
	if err == nil && a.proof == nil && b.mustProve(p.ask, a) {
		err = errors.New("the reply has no usable proof, which troupe.fork.require_proofs demands: query a node " +
			"that returns proofs, or unset it")
	}
	if err != nil {
		return nil, b.away(p.ask.String(), p.at, err)
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = b.disk.put(p.at, p.ask.String(), raw)
	}
	if err != nil {
		b.warnOnce("cache", fmt.Errorf("fork: replies are not cached on disk (troupe.fork.cache): %w", err))
	}
	b.took(p, a, nil)
	return a, nil
}

// mustProve returns whether this node refuses the answer a if it has no proof.
func (b *Base) mustProve(q ask, a *answer) bool {
	return b.o.MustProve && q.kind == askState && !a.large
}

// took counts an answer of the remote node that this node has accepted.
func (b *Base) took(p place, a *answer, also func(*Stats)) {
	b.mu.Lock()
	b.stats.LastError = ""
	if a.proof != nil {
		b.stats.Proven++
	} else {
		b.stats.Unproven++
	}
	if also != nil {
		also(&b.stats)
	}
	b.mu.Unlock()
	if p.kind == askState && a.proof == nil && !a.large {
		b.warnOnce("unproven", fmt.Errorf("fork: %v at block %v: the remote node sent no usable proof of contract "+
			"storage: its values are used unverified, "+
			"and gas of writes to them may differ slightly; troupe.fork.require_proofs refuses such replies", p.ask, p.at))
	}
}

func (b *Base) warnOnce(what string, err error) {
	b.mu.Lock()
	told := b.warned[what]
	b.warned[what] = true
	b.mu.Unlock()
	if !told {
		b.blame(err)
	}
}

// reply requests an answer from the remote node.
func (b *Base) reply(p place) (*stored, error) {
	in, err := b.Call("query", p.params(p.at, true))
	if err != nil && p.kind == askState && !isCause(err, append([]string{"TOO_LARGE_CONTRACT_STATE", "UNKNOWN_BLOCK"}, absences...)...) {
		// The node may not support proofs.
		if r := (*ReplyError)(nil); errors.As(err, &r) && !r.passing() {
			in, err = b.Call("query", p.params(p.at, false))
		}
	}
	if p.kind == askKeys && isCause(err, "TOO_MANY_ACCESS_KEYS") {
		in, err = b.keyPages(p)
	}
	switch {
	case isCause(err, absences...):
		return &stored{Absent: true}, nil
	case p.kind == askState && isCause(err, "TOO_LARGE_CONTRACT_STATE"):
		return &stored{Large: true}, nil
	case isCause(err, "UNKNOWN_BLOCK", "GARBAGE_COLLECTED_BLOCK"):
		return nil, fmt.Errorf("%w: the remote node has no state of this block; use the URL of an archival node: %w", ErrBlockGone, err)
	case err != nil:
		return nil, err
	}
	var r struct {
		Error *string          `json:"error"`
		Hash  *primitives.Hash `json:"block_hash"`
	}
	if err := json.Unmarshal(in, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errReply, err)
	}
	if r.Error != nil { // the old form of a missing key
		if p.kind != askKey || r.Hash == nil || *r.Hash != p.at {
			return nil, &ReplyError{Text: clip(*r.Error)}
		}
		return &stored{Absent: true}, nil
	}
	return &stored{Result: in}, nil
}

// keyPage is how many keys are requested at a time; the remote node may return fewer.
const keyPage = 1000

// keyPages requests an account's keys page by page, from a node that does not return so many at
// once (nearcore from 2.14 on), and returns them as one reply. The limit for one reply applies to
// all pages together.
func (b *Base) keyPages(p place) (json.RawMessage, error) {
	var all struct {
		Hash   json.RawMessage   `json:"block_hash"`
		Height json.RawMessage   `json:"block_height"`
		Keys   []json.RawMessage `json:"keys"`
	}
	params := p.params(p.at, false)
	params["limit"] = keyPage
	for size := int64(0); ; {
		in, err := b.Call("query", params)
		if err != nil {
			return nil, err
		}
		if size += int64(len(in)); size > b.o.MaxReply {
			return nil, fmt.Errorf("%w: access keys of %s take more than %d bytes (troupe.fork.max_reply_bytes)",
				errReply, p.account, b.o.MaxReply)
		}
		before := all.Keys
		var more struct {
			LastKey primitives.PublicKeyHandle `json:"last_key"`
		}
		all.Keys = nil
		if err := errors.Join(json.Unmarshal(in, &all), json.Unmarshal(in, &more)); err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
		all.Keys = append(before, all.Keys...)
		if more.LastKey == "" {
			return json.Marshal(&all)
		}
		if more.LastKey == params["after_key"] {
			return nil, fmt.Errorf("%w: a page of access keys of %s repeats its last key %s", errReply, p.account, more.LastKey)
		}
		params["after_key"] = more.LastKey
	}
}

// Height returns the height of a block of the forked chain. The bool is false if the block is
// unknown on that chain, or is above the pinned block.
func (b *Base) Height(hash primitives.Hash) (primitives.Height, bool, error) {
	b.mu.Lock()
	s, known := b.heights[hash]
	b.mu.Unlock()
	if known {
		return s.height, s.ok, nil
	}
	in, err := b.Call("block", map[string]any{"block_id": hash})
	switch {
	case isCause(err, "UNKNOWN_BLOCK"):
	case err != nil:
		return 0, false, b.away("a block that a transaction names", hash, err)
	default:
		v, err := parseBlock(in)
		if err == nil && v.Hash() != hash {
			err = errOther
		}
		if err != nil {
			return 0, false, b.away("a block that a transaction names", hash, err)
		}
		s = seen{v.Header.Height, v.Header.Height <= b.pin.Height}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.heights) >= maxHeights {
		clear(b.heights)
		b.heights[b.pin.Hash] = seen{b.pin.Height, true}
	}
	b.heights[hash] = s
	return s.height, s.ok, nil
}

// Get returns the value of a key after a block, nil if there is none.
func (b *Base) Get(at primitives.Hash, key []byte) ([]byte, error) {
	k, err := primitives.ParseTrieKey(key)
	if err != nil {
		return nil, nil // no state has such a key
	}
	q := ask{account: k.Account}
	switch k.Column {
	case primitives.ColAccount:
		q.kind = askAccount
	case primitives.ColContractCode:
		return b.code(at, k.Account)
	case primitives.ColAccessKey:
		return b.accessKey(at, key, &k)
	case primitives.ColContractData:
		a, err := b.data(at, k.Account, k.Data)
		if err != nil {
			return nil, err
		}
		return pairOf(a.pairs, key), nil
	case primitives.ColGlobalContractCode:
		if q.kind, q.account = askGlobalNamed, k.Global.Account; q.account == "" {
			q.kind, q.arg = askGlobalCode, string(k.Global.Hash[:])
		}
	default:
		return nil, nil
	}
	a, err := b.look(at, q)
	if err != nil {
		return nil, err
	}
	return a.value, nil
}

func pairOf(pairs []state.Change, key []byte) []byte {
	i, found := slices.BinarySearchFunc(pairs, state.Change{Key: key}, byKey)
	if !found {
		return nil
	}
	return pairs[i].Value
}

// code returns an account's own code. A caller that asks for code is going to run it, so code
// requests the contract's storage at the same time.
func (b *Base) code(at primitives.Hash, id primitives.AccountID) ([]byte, error) {
	account, err := b.look(at, ask{kind: askAccount, account: id})
	if err != nil || account.value == nil || account.account.Contract.Kind != primitives.ContractLocal {
		return nil, err
	}
	go func() { _, _ = b.look(at, ask{kind: askState, account: id}) }()
	a, err := b.look(at, ask{kind: askCode, account: id})
	if err != nil {
		return nil, err
	}
	if primitives.HashBytes(a.value) != account.account.Contract.Hash {
		b.forget(at, ask{kind: askCode, account: id})
		return nil, b.away("the code of "+string(id), at, errCode)
	}
	return a.value, nil
}

// forget drops a cached answer, in memory and on disk, so that the remote node is asked again.
func (b *Base) forget(at primitives.Hash, q ask) {
	b.mu.Lock()
	if a := b.known[place{at, q}]; a != nil {
		b.size -= a.size
	}
	delete(b.known, place{at, q})
	b.mu.Unlock()
	_ = b.disk.put(at, q.String(), nil)
}

// accessKey returns an access key, or one nonce of a gas key.
func (b *Base) accessKey(at primitives.Hash, key []byte, k *primitives.TrieKey) ([]byte, error) {
	q := ask{kind: askKey, account: k.Account, arg: string(k.Handle)}
	_, whole := k.Handle.FullKey()
	switch {
	case k.HasIndex && !whole:
		return nil, b.away("the nonces of a gas key of "+string(k.Account), at, errKeyHash)
	case k.HasIndex:
		q.kind = askNonces
	case !whole:
		q.kind, q.arg = askKeys, ""
	default:
		b.mu.Lock()
		all := b.known[place{at, ask{kind: askKeys, account: k.Account}}]
		b.mu.Unlock()
		if all != nil {
			return pairOf(all.pairs, key), nil
		}
	}
	a, err := b.look(at, q)
	if err != nil {
		return nil, err
	}
	if q.kind == askKey {
		return a.value, nil
	}
	return pairOf(a.pairs, key), nil
}

// data returns an answer that covers a contract's key: the whole storage if the remote node returns
// the whole storage in one reply, else the pairs that begin with the key.
func (b *Base) data(at primitives.Hash, id primitives.AccountID, key []byte) (*answer, error) {
	a, err := b.look(at, ask{kind: askState, account: id})
	if err != nil || !a.large {
		return a, err
	}
	a, err = b.look(at, ask{kind: askState, account: id, arg: string(key)})
	if err == nil && a.large {
		err = b.away(fmt.Sprintf("the storage of %s under prefix %x", id, key), at,
			errors.New("the value is larger than the remote node returns in one reply"))
	}
	return a, err
}

// Scan returns the pairs under a prefix of an account's keys or storage, ascending.
func (b *Base) Scan(at primitives.Hash, prefix []byte) ([]state.Change, error) {
	id, owned, err := primitives.TrieKeyAccount(prefix)
	if err != nil || !owned {
		return nil, nil
	}
	var all *answer
	switch primitives.TrieColumn(prefix[0]) {
	case primitives.ColContractData:
		all, err = b.data(at, id, prefix[len(primitives.AppendContractDataKey(nil, id, nil)):])
	case primitives.ColAccessKey:
		if all, err = b.look(at, ask{kind: askKeys, account: id}); err == nil {
			all, err = b.withNonces(at, id, all)
		}
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []state.Change
	for _, p := range all.pairs {
		if len(p.Key) >= len(prefix) && string(p.Key[:len(prefix)]) == string(prefix) {
			out = append(out, p)
		}
	}
	return out, nil
}

// withNonces adds the nonces of gas keys to a list of access keys.
func (b *Base) withNonces(at primitives.Hash, id primitives.AccountID, keys *answer) (*answer, error) {
	out := &answer{pairs: slices.Clone(keys.pairs)}
	for _, p := range keys.pairs {
		k, err := primitives.ParseTrieKey(p.Key)
		if err != nil {
			return nil, b.away("the access keys of "+string(id), at, err)
		}
		var key primitives.AccessKey
		if err := borsh.Unmarshal(p.Value, &key); err != nil || key.GasKey == nil {
			continue
		}
		if _, whole := k.Handle.FullKey(); !whole {
			return nil, b.away("the nonces of a gas key of "+string(id), at, errKeyHash)
		}
		a, err := b.look(at, ask{kind: askNonces, account: id, arg: string(k.Handle)})
		if err != nil {
			return nil, err
		}
		out.pairs = append(out.pairs, a.pairs...)
	}
	slices.SortFunc(out.pairs, byKey)
	return out, nil
}

// Forks returns the branches on the path of a contract's key, as far as these branches are proven.
func (b *Base) Forks(at primitives.Hash, key []byte) (trie.Forks, bool, error) {
	k, err := primitives.ParseTrieKey(key)
	if err != nil || k.Column != primitives.ColContractData {
		return trie.Forks{}, false, nil
	}
	a, err := b.data(at, k.Account, k.Data)
	if err != nil || a.proof == nil {
		return trie.Forks{}, false, err
	}
	f, err := a.proof.Forks(key)
	if err != nil {
		return f, false, b.away(fmt.Sprintf("the proof for key %x", key), at, err)
	}
	return f, true, nil
}

// Newest returns the newest final block of the forked chain, as the remote node reports it.
func (b *Base) Newest() (hash primitives.Hash, height primitives.Height, err error) {
	in, err := b.Call("block", map[string]any{"finality": "final"})
	if err != nil {
		return hash, 0, b.away("the newest final block", hash, err)
	}
	v, err := parseBlock(in)
	if err == nil && v.Header.Height < b.pin.Height {
		err = fmt.Errorf("%w: its newest final block %d is below block %d", ErrBlockGone, v.Header.Height, b.pin.Height)
	}
	if err != nil {
		return hash, 0, b.away("the newest final block", hash, err)
	}
	return v.Hash(), v.Header.Height, nil
}
