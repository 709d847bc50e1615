package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Options configure a replay.
type Options struct {
	Par         apply.Par         // nil: receipts are applied one by one
	VM          action.VM         // nil: a new VM for this replay
	StateBytes  uint64            // bytes of memory for the tries; 0: no bound
	Tries       trie.Options      // options of the engine's tries
	EpochConfig map[string][]byte // files of <home>/epoch_configs, by name
	Open        func(storage.Options) (*storage.Store, error)
	RestartAt   primitives.Height            // close and reopen the store after the block of this height; 0: never
	Restart     func(primitives.Height) bool // close and reopen after each block for which it returns true; nil: never
	Progress    func(done, all int)          // called after each block; nil: not called
	MaxFindings int                          // number of differences after which the replay stops; 0: 20
	BlockEnd    func(h primitives.Height)    // called after each block, for tests; nil: not called
	End         func(*engine.Engine) error   // called before the engine is closed; nil: not called
	Witnesses   bool                         // apply every chunk again from its state proof

	// behind is called after each imported block, for tests. That block need not be the head at
	// that time. nil: not called.
	behind    func(*runner, *primitives.Block, []*primitives.Chunk) error
	tracks    engine.Track // for tests: the tracked shards; nil: all
	snapshots bool         // for tests: keep state snapshots
}

// Report is the result of a replay.
type Report struct {
	Blocks, Chunks, Transactions, Changes, Epochs, Lights int // numbers of compared items
	// Beyond is the number of replies about blocks after the last recorded one, which were not
	// compared.
	Beyond int
	// Transitions is the number of state transitions that were applied from their proofs. Splits is
	// the number of shard splits among them; a split counts once per child.
	Transitions, Splits int
	Witnesses, Implicit int // state witnesses that were checked; implicit transitions in them
	Roots               []primitives.Hash
	Evicted             uint64 // bytes of trie nodes that were evicted from memory
	Findings            []Difference
	// Unkeyed is the first validator whose key is not in the recording; empty: all keys are.
	// Without all keys, the replay cannot sign blocks. It then imports the recorded headers, and
	// the import checks them against the results of execution.
	Unkeyed primitives.AccountID
}

// unkeyedError means that a validator must sign whose key is not in the recording.
type unkeyedError struct{ account primitives.AccountID }

func (e *unkeyedError) Error() string {
	return fmt.Sprintf("the recording has no key seed of validator %s", e.account)
}

// runner is the state of one replay.
type runner struct {
	o      Options
	rec    *Recording
	report *Report
	chain  *engine.ChainSpec
	store  *storage.Store
	e      *engine.Engine
	vm     action.VM
	keys   map[primitives.AccountID]primitives.SecretKey
	told   bool // keys are missing: the replay imports the recorded headers instead of signing new ones
	proven map[*engine.Transition]bool
}

// Run replays a recording and compares all results. Differences are in the Report, not in the
// error.
func Run(rec *Recording, o Options) (*Report, error) {
	if o.MaxFindings == 0 {
		o.MaxFindings = 20
	}
	if o.Open == nil {
		disk := storage.NewMemDisk()
		o.Open = func(so storage.Options) (*storage.Store, error) { return storage.OpenMemory(disk, so) }
	}
	if o.VM == nil {
		own, err := vm.New(vm.Options{})
		if err != nil {
			return nil, err
		}
		defer own.Close()
		o.VM = own
	}
	report, err := run(rec, o, false)
	var unkeyed *unkeyedError
	if errors.As(err, &unkeyed) {
		if report, err = run(rec, o, true); report != nil {
			report.Unkeyed = unkeyed.account
		}
	}
	return report, err
}

func run(rec *Recording, o Options, told bool) (*Report, error) {
	r := &runner{o: o, rec: rec, report: &Report{}, vm: o.VM, told: told, keys: map[primitives.AccountID]primitives.SecretKey{}}
	for account, seed := range rec.Meta.ValidatorSeeds {
		r.keys[primitives.AccountID(account)] = primitives.SecretKeyFromSeed(primitives.ED25519, seed)
	}
	var err error
	if r.chain, err = Genesis(rec, o.EpochConfig); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer func() { _ = r.close() }()
	if err := r.blocks(); err != nil || r.full() {
		return r.report, err
	}
	if err := r.end(); err != nil || o.End == nil {
		return r.report, err
	}
	return r.report, o.End(r.e)
}

// key returns the secret key of a validator, or an unkeyedError if the recording does not have the key.
func (r *runner) key(account primitives.AccountID) (primitives.SecretKey, error) {
	key, known := r.keys[account]
	if !known {
		return key, &unkeyedError{account}
	}
	return key, nil
}

func storeIdentity(rec *Recording, c *engine.ChainSpec) storage.Identity {
	return storage.Identity{ChainID: c.ID, Genesis: primitives.HashBytes(rec.Genesis), Numbering: c.Version.Numbering}
}

func (r *runner) open() (err error) {
	if r.store, err = r.o.Open(storage.Options{Identity: storeIdentity(r.rec, r.chain)}); err != nil {
		return err
	}
	o := engine.Options{Chain: r.chain, Store: r.store, VM: r.vm, Par: r.o.Par, StateBytes: r.o.StateBytes,
		Tries: r.o.Tries, Tracks: r.o.tracks, Snapshots: r.o.snapshots,
		PartialBodies: r.told,
		MainResults:   -1} // negative: no cache, so that each witness is applied
	if r.o.Witnesses {
		o.ProofBytes = keptProofs
	}
	r.e, err = engine.Open(o)
	return err
}

func (r *runner) close() error {
	r.report.Evicted += r.e.Evicted()
	return errors.Join(r.e.Close(), r.store.Close())
}

func (r *runner) restart() error {
	if err := r.close(); err != nil {
		return err
	}
	return r.open()
}

func (r *runner) full() bool { return len(r.report.Findings) >= r.o.MaxFindings }

func (r *runner) found(d []Difference) bool {
	r.report.Findings = append(r.report.Findings, d...)
	return len(d) > 0
}

func (r *runner) compare(where string, got, want []byte) bool {
	return !r.found(DiffJSON(where, got, want, r.o.MaxFindings-len(r.report.Findings)))
}

func (r *runner) blocks() error {
	for i := range r.rec.Blocks {
		line := &r.rec.Blocks[i]
		h := line.Given.Header.Height
		ok, err := r.block(line)
		if err != nil {
			return fmt.Errorf("block %d: %w", h, err)
		}
		if !ok || r.full() { // after a difference, all later blocks would differ
			return nil
		}
		if r.o.RestartAt != 0 && h == r.o.RestartAt || r.o.Restart != nil && r.o.Restart(h) {
			if err := r.restart(); err != nil {
				return fmt.Errorf("reopen the store after block %d: %w", h, err)
			}
		}
		if r.o.BlockEnd != nil {
			r.o.BlockEnd(h)
		}
		if r.o.Progress != nil {
			r.o.Progress(i+1, len(r.rec.Blocks))
		}
	}
	return nil
}

// block produces a recorded block again, compares it with the recording, and imports it. ok is
// false if it differs from the recording.
func (r *runner) block(line *BlockLine) (ok bool, err error) {
	g := &line.Given.Header
	if g.PrevHash.IsZero() {
		return r.genesis(line)
	}
	if rec, err := r.store.BlockByHash(g.Hash); err == nil { // the block was compared and stored before a restart
		return true, r.oldRoots(rec)
	}
	chunks, ok, err := r.makeChunks(line)
	if err != nil || !ok {
		return false, err
	}
	blockOf := r.makeBlock
	if r.told {
		blockOf = r.toldBlock
	}
	block, err := blockOf(line, chunks)
	if err != nil {
		return false, err
	}
	where := fmt.Sprintf("block %d", g.Height)
	if !r.compare(where, view.AppendBlock(nil, primitives.AccountID(line.Given.Author), block), line.Raw) {
		return false, nil
	}
	a, err := r.e.Process(block, chunks, false)
	if err != nil {
		r.found([]Difference{{Where: where, Got: err.Error(), Want: "accepted"}})
		return false, nil
	}
	if !a.IsHead && r.o.behind == nil {
		return false, errors.New("it was imported, but is not the head")
	}
	if r.o.behind != nil {
		if err := r.o.behind(r, block, chunks); err != nil {
			return false, err
		}
	}
	r.report.Blocks++
	for i := range a.Entry.Shards {
		r.report.Roots = append(r.report.Roots, a.Entry.Shards[i].Extra.StateRoot)
	}
	if r.o.Witnesses {
		if err := r.witnesses(a.Entry); err != nil {
			return false, err
		}
		if err := r.chunkWitnesses(a.Entry); err != nil {
			return false, err
		}
	}
	return true, r.afterBlock(a.Entry)
}

// oldRoots adds the state roots of a stored block to the report.
func (r *runner) oldRoots(rec *storage.Record) error {
	for _, shard := range rec.Shards() {
		raw, err := rec.Extra(shard)
		if err != nil {
			return err
		}
		var x chain.ChunkExtra
		if err := borsh.Unmarshal(raw, &x); err != nil {
			return err
		}
		r.report.Roots = append(r.report.Roots, x.StateRoot)
	}
	return nil
}

func (r *runner) genesis(line *BlockLine) (bool, error) {
	b := r.e.Genesis().Block
	r.report.Blocks++
	return r.compare("genesis block", view.AppendBlock(nil, primitives.AccountID(line.Given.Author), b), line.Raw), nil
}

// makeChunks produces the new chunks of a block again, signed by their producers, and compares them
// with the recording. ok is false if a chunk differs.
func (r *runner) makeChunks(line *BlockLine) ([]*primitives.Chunk, bool, error) {
	g := &line.Given
	if len(g.Header.ChunkMask) != len(g.Chunks) {
		return nil, false, fmt.Errorf("it has %d chunks, but its chunk mask has %d entries", len(g.Chunks), len(g.Header.ChunkMask))
	}
	chunks := make([]*primitives.Chunk, len(g.Chunks))
	for i, c := range g.Chunks {
		if !g.Header.ChunkMask[i] {
			continue
		}
		if c.PrevBlockHash != g.Header.PrevHash {
			return nil, false, fmt.Errorf("the chunk of shard %d has parent %v, not the block's parent", c.ShardID, c.PrevBlockHash)
		}
		recorded := r.chunkLine(g.Header.Height, c.ShardID)
		var txs []*primitives.SignedTransaction
		if recorded != nil {
			var err error
			if txs, err = r.rec.Transactions(recorded); err != nil {
				return nil, false, err
			}
		}
		producer, err := r.e.ChunkProducer(c.PrevBlockHash, c.ShardID)
		if err != nil {
			return nil, false, err
		}
		key, err := r.key(producer.AccountID)
		if err != nil {
			if !r.told {
				return nil, false, err
			}
			key = standIn()
		}
		made, err := r.e.NewChunk(c.PrevBlockHash, primitives.ShardIndex(i), txs, key)
		if err != nil {
			return nil, false, err
		}
		if r.told {
			made.Header.Signature = c.Signature // no hash covers the signature; Process checks it
		}
		chunks[i] = made
		if recorded != nil {
			r.report.Chunks++
			r.report.Transactions += len(txs)
			where := fmt.Sprintf("chunk of shard %d in block %d", c.ShardID, g.Header.Height)
			shown := *made
			shown.Header.HeightIncluded = 0 // neard's view of a chunk by its hash has 0 here
			if !r.compare(where, view.AppendChunk(nil, producer.AccountID, &shown), recorded.Raw) {
				return nil, false, nil
			}
		}
	}
	return chunks, true, nil
}

func (r *runner) chunkLine(h primitives.Height, shard primitives.ShardID) *ChunkLine {
	lines := r.rec.Chunks[h]
	for i := range lines {
		if lines[i].ShardID == shard {
			return &lines[i]
		}
	}
	return nil
}

// makeBlock produces a recorded block again. It signs the header, the approvals and the endorsements
// with the keys in the recording.
func (r *runner) makeBlock(line *BlockLine, chunks []*primitives.Chunk) (*primitives.Block, error) {
	g := &line.Given.Header
	parent := r.e.BlockNode(g.PrevHash)
	if parent == nil {
		return nil, fmt.Errorf("block %d: its parent %v is not in the engine's memory", g.Height, g.PrevHash)
	}
	p := &engine.Proposal{Parent: g.PrevHash, Height: g.Height, Timestamp: g.Timestamp, Chunks: chunks,
		Vote: g.LatestProtocolVersion, Endorsements: make([][]primitives.Signature, len(chunks))}
	approvers, err := r.e.Approvers(g.PrevHash)
	if err != nil {
		return nil, err
	}
	inner := primitives.NewApprovalInner(g.PrevHash, parent.Height(), g.Height)
	message := inner.SignedBytes(g.Height)
	for i, given := range g.Approvals {
		sig := primitives.Signature("")
		if given != nil && i < len(approvers) {
			key, err := r.key(approvers[i].AccountID)
			if err != nil {
				return nil, err
			}
			sig = key.Sign(message)
		}
		p.Approvals = append(p.Approvals, sig)
	}
	for i, c := range chunks {
		if c == nil {
			continue
		}
		validators, err := r.e.ChunkValidators(parent, c.Header.ShardID)
		if err != nil {
			return nil, err
		}
		var bits []byteNumber
		if i < len(g.ChunkEndorsements) {
			bits = g.ChunkEndorsements[i]
		}
		if p.Endorsements[i], err = r.endorse(c.Hash, validators, bits); err != nil {
			return nil, err
		}
	}
	producer, err := r.e.BlockProducer(g.PrevHash, g.Height)
	if err != nil {
		return nil, err
	}
	if string(producer.AccountID) != line.Given.Author {
		return nil, fmt.Errorf("the computed block producer is %s, the recorded author %s", producer.AccountID, line.Given.Author)
	}
	key, err := r.key(producer.AccountID)
	if err != nil {
		return nil, err
	}
	return r.e.NewBlock(p, key)
}

// standIn returns the key that signs a chunk if the key of its producer is not in the recording.
// makeChunks then replaces the signature by the recorded one.
var standIn = sync.OnceValue(func() primitives.SecretKey { return primitives.SecretKeyFromSeed(primitives.ED25519, "stand-in") })

// toldBlock returns a block with the recorded header and body. It replaces the recorded chunk
// headers by the headers of chunks. It is used instead of makeBlock if keys are missing.
func (r *runner) toldBlock(line *BlockLine, chunks []*primitives.Chunk) (*primitives.Block, error) {
	doc, err := blockdoc.ParseBlock(line.Raw)
	if err != nil {
		return nil, err
	}
	block := doc.Block
	if len(block.Body.Chunks) != len(chunks) {
		return nil, fmt.Errorf("%d chunks were made again, but the recorded block has %d chunk headers",
			len(chunks), len(block.Body.Chunks))
	}
	if got := block.Header.Hash(); got != line.Given.Header.Hash {
		return nil, fmt.Errorf("the recorded header hashes to %v, but its hash field is %v", got, line.Given.Header.Hash)
	}
	for i, c := range chunks {
		if c != nil {
			h := c.Header
			h.HeightIncluded = block.Header.Height
			block.Body.Chunks[i] = &h
		}
	}
	return block, nil
}

// endorse signs endorsements of a chunk by the validators that bits selects, as in the recorded
// header.
func (r *runner) endorse(chunk primitives.Hash, validators []chain.Assigned, bits []byteNumber) ([]primitives.Signature, error) {
	out := make([]primitives.Signature, len(validators))
	message := primitives.ChunkEndorsementBytes(chunk)
	for k, v := range validators {
		if k/8 < len(bits) && bits[k/8]>>(k%8)&1 == 1 {
			key, err := r.key(v.AccountID)
			if err != nil {
				return nil, err
			}
			out[k] = key.Sign(message)
		}
	}
	return out, nil
}

// afterBlock compares the replies of `changes` and `block_effects` about a block.
func (r *runner) afterBlock(entry *engine.BlockNode) error {
	line, ok := r.rec.Changes[entry.Height()]
	if !ok {
		return nil
	}
	r.report.Changes++
	all := entry.Changes()
	effects, err := view.Effects(all)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("changes of block %d", entry.Height())
	if !r.compare(where+" effects", list(effects, func(b []byte, e *view.Effect) []byte { return appendEffect(b, e) }), line.Effects) {
		return nil
	}
	accounts := map[primitives.AccountID]bool{}
	for _, e := range effects {
		accounts[e.AccountID] = true
	}
	ids := make([]primitives.AccountID, 0, len(accounts))
	for a := range accounts {
		ids = append(ids, a)
	}
	slices.Sort(ids)
	// The recorder requested a kind of changes only if the kind occurred among the block's effects.
	// The effects of neard do not list nonces of gas keys.
	for name, asked := range map[string]struct {
		kind   view.ChangesKind
		effect view.ChangeKind
	}{
		"account_changes":        {view.AccountChanges, view.AccountChange},
		"all_access_key_changes": {view.AllAccessKeyChanges, view.AccessKeyChange},
		"contract_code_changes":  {view.ContractCodeChanges, view.ContractCodeChange},
		"data_changes":           {view.DataChanges, view.DataChange},
	} {
		want, recorded := line.Changes[name]
		if !recorded {
			if !slices.ContainsFunc(effects, func(e view.Effect) bool { return e.Kind == asked.effect }) {
				continue
			}
			want = json.RawMessage("[]")
		}
		got, err := (&view.ChangesRequest{Kind: asked.kind, Accounts: ids}).Select(all)
		if err != nil {
			return err
		}
		r.compare(where+" "+name, list(got, view.AppendChange), want)
	}
	return nil
}

func appendEffect(b []byte, e *view.Effect) []byte {
	whole := view.AppendEffects(nil, &primitives.Hash{}, []view.Effect{*e})
	a := bytes.IndexByte(whole, '[') + 1
	inner := whole[a:]
	return append(b, inner[:bytes.IndexByte(inner, ']')]...)
}

func list[T any](items []T, f func([]byte, *T) []byte) []byte {
	b := []byte{'['}
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = f(b, &items[i])
	}
	return append(b, ']')
}

// end compares the replies that are not about a single block: transaction statuses, light client
// blocks, validators, the protocol config.
func (r *runner) end() error {
	for i := range r.rec.Txs {
		if r.full() {
			return nil
		}
		if err := r.transaction(&r.rec.Txs[i]); err != nil {
			return err
		}
	}
	lights := r.rec.lightsWithin()
	epochs := r.rec.epochsWithin()
	r.report.Beyond = len(r.rec.Lights) - len(lights) + len(r.rec.Epochs) - len(epochs)
	for i := range lights {
		l := &lights[i]
		got, err := r.e.NextLightClientBlock(l.After)
		if err != nil {
			return fmt.Errorf("light client block after %v: %w", l.After, err)
		}
		r.report.Lights++
		ours := []byte("null")
		if got != nil {
			ours = view.AppendLightClientBlock(nil, got)
		}
		r.compare(fmt.Sprintf("light client block after %v", l.After), ours, l.Light)
	}
	if err := r.lightClient(lights); err != nil {
		return err
	}
	for i := range epochs {
		l := &epochs[i]
		got, err := r.e.Validators(engine.ValidatorsOfEpoch(l.EpochID))
		if err != nil {
			return fmt.Errorf("validators of epoch %v: %w", l.EpochID, err)
		}
		r.report.Epochs++
		r.compare(fmt.Sprintf("validators of epoch %v", l.EpochID), view.AppendValidators(nil, got), l.Validators)
	}
	return nil
}

// lightClient verifies the light client blocks as a light client does, starting with the block
// producers of the genesis.
func (r *runner) lightClient(lights []LightLine) error {
	var producers [2][]primitives.ValidatorStake
	err := r.e.Epochs(func(m *epoch.Manager) (err error) {
		if producers[0], err = m.BlockProducersOrdered(primitives.EpochID{}); err == nil {
			producers[1], err = m.BlockProducersOrdered(r.e.Genesis().Hash)
		}
		return err
	})
	if err != nil {
		return err
	}
	at := &chain.LightClientHead{Lite: r.e.Genesis().Header().BlockHeaderInnerLite, BPs: producers[0], NextBPs: producers[1]}
	at.Lite.NextEpochID = r.e.Genesis().Hash
	for i := range lights {
		b, err := r.e.NextLightClientBlock(lights[i].After)
		if err != nil {
			return err
		}
		if b == nil { // already reported as a difference
			return nil
		}
		next, err := at.Advance(b, primitives.Signature.Verify)
		if err != nil {
			r.found([]Difference{{Where: fmt.Sprintf("light client after %v", lights[i].After), Got: err.Error(), Want: "verified"}})
			return nil
		}
		at = next
	}
	return nil
}
