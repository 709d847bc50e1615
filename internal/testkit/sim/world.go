package sim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Units of virtual time, in ns.
const (
	ms     int64 = 1_000_000
	second       = 1000 * ms
)

// begin is the virtual time of the genesis and of the first start of the nodes.
const begin int64 = 1_800_000_000 * second

// Options configures a run.
type Options struct {
	Seed     uint64
	Scenario Scenario
	Bug      Bug
	Trace    io.Writer // receives all lines of the trace; nil: the trace is only in Result.Tail
}

// Result is the result of a run.
type Result struct {
	Hash          [32]byte // hash of all events; runs with equal seeds have equal hashes
	Violation     error    // first violation of an invariant; nil: none
	Height        primitives.Height
	Final         primitives.Height
	Epochs        int
	Time          int64 // virtual time of the run, in ns
	Events        int
	Messages      int
	Receipts      int // number of transactions and receipts applied in final blocks
	Crashes       int
	FalseMessages int // number of false messages that the byzantine validator has made
	Shards        int // number of shards at the end
	Universal     int // number of universal accounts after the last final block
	// Versions are the protocol versions of final blocks, ascending.
	Versions []primitives.ProtocolVersion
	Moves    int               // number of changes of a node's tracked shards
	Supplies int               // number of final blocks after which all tokens were added up
	Missed   int               // number of heights without a block, below the last final block
	Gaps     int               // number of chunks that are missing in final blocks
	LastGap  primitives.Height // height of the last final block with a missing chunk; 0: none
	Lists    int               // number of pairs of a block and a shard with a non-empty blacklist
	Anchored Anchored
	Endorsed map[primitives.AccountID]Share
	Forms    map[string]Tally // counts by form (see Scenario.Forms)
	// Early counts the chunks that nodes took from optimistic blocks, and the rest. The counts are
	// those since the last start of each node.
	Early engine.Uses
	// ToEndorsement is the mean virtual time in ns from the first message with a block to an
	// endorsement of a chunk on that block.
	ToEndorsement int64
	Tail          []string // last lines of the trace
}

// Share counts the endorsements of a validator in final blocks (Made), and the expected
// endorsements (Due). Due includes endorsements of chunks that are missing.
type Share struct{ Made, Due int }

// happening is an event in the heap. Events of equal time run in the order of seq.
type happening struct {
	at  int64
	seq uint64
	do  func()
}

// agenda is a heap of happenings in which each has up to four children. It is written out because
// container/heap allocates memory for each event.
type agenda []happening

func (a agenda) before(i, k int) bool {
	return a[i].at < a[k].at || a[i].at == a[k].at && a[i].seq < a[k].seq
}

func (a *agenda) push(x happening) {
	*a = append(*a, x)
	h := *a
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 4
		if !h.before(i, parent) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// pop removes the first happening. The agenda must not be empty.
func (a *agenda) pop() happening {
	h := *a
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], happening{}
	h = h[:last]
	*a = h
	for i := 0; ; {
		least := i
		for k := 4*i + 1; k <= min(4*i+4, last-1); k++ {
			if h.before(k, least) {
				least = k
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// World is one simulated cluster.
type World struct {
	o       Options
	s       Scenario
	rng     *rand.Rand
	now     int64
	seq     uint64
	agenda  agenda
	chain   *engine.ChainSpec
	genesis *genesis.Genesis
	// upgrades is the schedule by which nodes vote for versions. nil: they vote for the newest
	// version at once.
	upgrades *epoch.UpgradeSchedule
	nodes    []*node
	byName   map[primitives.AccountID]*node
	stalled  int64 // virtual time until which no disk persists blocks
	muted    int64 // virtual time until which state requests stay unanswered
	net      network
	load     load
	move     move // only with Scenario.Twin
	check    checks
	trace    trace
	result   Result
}

// delays are the doomslug delays of neard.
var delays = doomslug.Delays{Endorsement: 600 * ms, Skip: 2000 * ms, MaxWait: 6000 * ms, ChunkWait: [2]uint64{1, 3}}

// names are the validators' names. Their first letters are spread over the alphabet, so that with
// few shards each shard has some of the accounts.
var names = validatorNames()

func validatorNames() []primitives.AccountID {
	list := []primitives.AccountID{"ant", "goat", "newt", "wolf", "bee", "hen", "owl", "yak", "cat", "ibis", "pig", "vole"}
	for i := len(list); i < maxNodes; i++ {
		list = append(list, primitives.AccountID(fmt.Sprintf("%c%02d", 'a'+byte(i*7%26), i)))
	}
	return list
}

// maxNodes is the maximum number of validators.
const maxNodes = 128

// seats returns the number of block producer seats. A chunk has as many parts. With the least
// number, five of 16 parts suffice to decode a chunk, so more than one validator must send parts.
func (s *Scenario) seats() int { return max(16, s.Nodes, s.Parts) }

// users is the number of accounts that send transactions.
const users = 16

func user(i int) primitives.AccountID {
	return primitives.AccountID(string(rune('a'+i*26/users)) + "." + fmt.Sprint(i))
}

// Run creates a world and runs it to the end of the scenario, a violation or the time limit.
func Run(o Options) (*Result, error) {
	w, err := newWorld(o)
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.run()
	r := &w.result
	copy(r.Hash[:], w.trace.hash.Sum(nil))
	r.Violation, r.Tail, r.Time = w.check.violation, w.trace.lines(), w.now-begin
	return r, nil
}

// newWorld starts all nodes of a world.
func newWorld(o Options) (*World, error) {
	w := &World{o: o, s: o.Scenario, rng: rand.New(rand.NewPCG(o.Seed, 0x7210)), now: begin, byName: map[primitives.AccountID]*node{}}
	w.trace = trace{hash: sha256.New(), to: o.Trace}
	if err := w.build(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	return w, nil
}

func (w *World) build() error {
	s := &w.s
	accounts := append([]primitives.AccountID{}, names[:s.Nodes]...)
	if s.Joiner {
		accounts = append(accounts, names[s.Nodes])
	}
	for i := range users {
		accounts = append(accounts, user(i))
	}
	if s.Universal {
		for i := range payers {
			accounts = append(accounts, workload.Account(i))
		}
	}
	o := genesis.LocalnetOptions{ChainID: "sim", Time: genesis.Time(begin), Accounts: accounts, Validators: s.Nodes, Shards: s.Shards}
	switch o.Protocol = s.Version; {
	case s.Splits:
		o.Protocol = 85
	case o.Protocol == 0:
		o.Protocol = parameters.Newest(primitives.NumberingRelease)
	}
	g, err := genesis.Localnet(o)
	if err != nil {
		return err
	}
	if g.Config.ShardLayout, err = workload.Layout(s.Shards); err != nil {
		return err
	}
	g.Config.EpochLength, g.Config.TransactionValidityPeriod = uint64(s.Epoch), 2*uint64(s.Epoch)
	g.Config.NumBlockProducerSeats = uint64(s.seats())
	if s.Eager {
		g.Config.NumBlockProducerSeats = uint64(s.Nodes)
	}
	for i := s.Nodes - s.Blind; i < s.Nodes; i++ { // with the smallest stakes, these nodes are no chunk producers
		lessen(g, i)
	}
	w.genesis = g
	if s.Upgrades {
		if w.upgrades, err = w.votes(o.Protocol); err != nil {
			return err
		}
	}
	records := []byte{'['}
	for i, r := range g.Records {
		if i > 0 {
			records = append(records, ',')
		}
		records = genesis.AppendRecord(records, r)
	}
	records = append(records, ']')
	configs, err := s.epochConfigs(&g.Config)
	if err != nil {
		return err
	}
	w.chain, err = engine.NewChain(&g.Config, primitives.NumberingRelease, configs,
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(records)), nil })
	if err != nil {
		return err
	}
	if s.Dead+s.Slow > 0 {
		w.chain.Params.EarlyKickout = &shortKickout
	}
	w.net.init(w)
	w.check.init(w)
	w.load.init(w)
	for i := range s.Nodes {
		w.add(newNode(w, i, names[i], names[i]))
	}
	if s.Joiner {
		w.add(newNode(w, s.Nodes, names[s.Nodes], names[s.Nodes]))
	}
	if s.Twin {
		n := newNode(w, s.Nodes, names[s.Nodes], names[s.Nodes-1])
		n.key, n.wait = secretOf(n.account), twinWait
		w.add(n)
	}
	for i := range s.Followers {
		w.add(newNode(w, len(w.nodes), primitives.AccountID(fmt.Sprint("rpc", i)), ""))
	}
	if s.Own {
		if err := w.deal(); err != nil {
			return err
		}
	}
	for i, n := range w.nodes {
		if s.Twin && i == s.Nodes {
			continue // moveValidator starts it
		}
		if err := n.start(); err != nil {
			return err
		}
	}
	w.plan()
	return nil
}

// votes draws the times at which validators begin to vote for each version above that of the
// genesis. The times are within Scenario.Faults and may be close together.
func (w *World) votes(genesis primitives.ProtocolVersion) (*epoch.UpgradeSchedule, error) {
	newest := parameters.Newest(primitives.NumberingRelease)
	times := make([]int64, newest-genesis)
	for i := range times {
		times[i] = begin/second + w.rng.Int64N(max(w.s.Faults/second, 1))
	}
	slices.Sort(times)
	list := make([]epoch.UpgradeVote, len(times))
	for i, t := range times {
		// Adding i makes the dates distinct, because they must ascend.
		list[i] = epoch.UpgradeVote{From: t + int64(i), Version: genesis + 1 + primitives.ProtocolVersion(i)}
	}
	return epoch.UpgradeScheduleOf(list, newest)
}

func (w *World) add(n *node) {
	w.nodes = append(w.nodes, n)
	w.byName[n.name] = n
}

// lessen reduces a validator's stake to 10 million NEAR.
func lessen(g *genesis.Genesis, i int) {
	v := &g.Config.Validators[i]
	less := primitives.NEAR(10_000_000)
	for _, r := range g.Records {
		if a, ok := r.(*genesis.AccountRecord); ok && a.AccountID == v.AccountID {
			rest, _ := v.Amount.Sub(less)
			a.Account.Amount = a.Account.Amount.SaturatingAdd(rest)
			a.Account.Locked = less
		}
	}
	v.Amount = less
}

func (w *World) close() {
	for _, n := range w.nodes {
		n.stop()
	}
}

// at schedules do for virtual time t, or for now if t has passed.
func (w *World) at(t int64, do func()) {
	w.seq++
	w.agenda.push(happening{max(t, w.now), w.seq, do})
}

func (w *World) after(d int64, do func()) { w.at(w.now+d, do) }

// run handles events until the end of the scenario, a violation, or the time limit.
func (w *World) run() {
	limit := begin + w.s.Limit
	for len(w.agenda) > 0 && w.check.violation == nil {
		w.next()
		if w.check.ended() {
			w.check.atEnd()
			break
		}
		if w.now > limit {
			w.check.fail("the scenario did not end within %d s of virtual time: %s", w.s.Limit/second, w.where())
		}
	}
	w.measure()
}

// next advances the virtual time to the next event and runs it.
func (w *World) next() {
	h := w.agenda.pop()
	w.now = h.at
	w.result.Events++
	h.do()
}

// where describes the head and final heights of all nodes.
func (w *World) where() (out string) {
	for _, n := range w.nodes {
		if n.core == nil {
			out += fmt.Sprintf(" %s down", n.name)
			continue
		}
		out += fmt.Sprintf(" %s %d/%d", n.name, n.engine.Head().Height(), n.engine.Final().Height)
	}
	return out
}

func (w *World) measure() {
	for _, n := range w.nodes {
		if n.core != nil {
			w.result.Height = max(w.result.Height, n.engine.Head().Height())
			w.result.Shards = n.engine.Head().Layout.NumShards()
			w.result.Final = max(w.result.Final, n.engine.Final().Height)
			for _, u := range n.engine.Times().Optimistic.Read() {
				w.result.Early.Hits += u.Hits
				w.result.Early.Misses += u.Misses
			}
		}
	}
	w.check.measure(&w.result)
}

// chance returns true with a probability of that many thousandths.
func (w *World) chance(thousandths int) bool { return w.rng.IntN(1000) < thousandths }

// between draws a number from lo to hi-1. If hi is not above lo, it returns lo.
func (w *World) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + w.rng.Int64N(hi-lo)
}

// trace contains the last lines of the trace, and the hash of all lines.
type trace struct {
	hash hash.Hash
	to   io.Writer
	ring [tail]string
	n    int
}

// tail is the number of lines that a trace keeps.
const tail = 400

func (t *trace) lines() (out []string) {
	for i := max(t.n-tail, 0); i < t.n; i++ {
		out = append(out, t.ring[i%tail])
	}
	return out
}

// say adds a line to the trace of the run: the virtual time, a node, and a text about it.
func (w *World) say(who primitives.AccountID, format string, args ...any) {
	line := w.line(who, format, args...)
	t := &w.trace
	_, _ = io.WriteString(t.hash, line)
	t.ring[t.n%tail] = line
	t.n++
	if t.to != nil {
		_, _ = fmt.Fprintln(t.to, line)
	}
}

// tell writes a line only to Options.Trace, which must not be nil.
func (w *World) tell(who primitives.AccountID, format string, args ...any) {
	_, _ = fmt.Fprintln(w.trace.to, w.line(who, format, args...))
}

func (w *World) line(who primitives.AccountID, format string, args ...any) string {
	return fmt.Sprintf("%9.3f %-5s %s", float64(w.now-begin)/float64(second), who, fmt.Sprintf(format, args...))
}
