package near

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

var sharedNet = testutil.Data("neard/net/")

// frameLine is a line of a recording; msg is its decoded frame.
type frameLine struct {
	T        float64
	Conn     int
	From, To string
	Frame    []byte
	msg      wire.Message
}

type nodeLine struct {
	Name    string
	Port    uint16
	NodeKey struct {
		Secret string `json:"secret_key"`
	} `json:"node_key"`
	ValidatorKey *struct {
		AccountID primitives.AccountID `json:"account_id"`
		Secret    string               `json:"secret_key"`
	} `json:"validator_key"`
}

// recorded is a recorded network of neards: the nodes, and all frames in order.
type recorded struct {
	nodes   []nodeLine
	frames  []frameLine
	epoch   time.Time          // of T = 0
	begin   map[int]*frameLine // of each connection
	end     map[int]float64    // when its last frame was seen
	t1      map[primitives.AccountID][]primitives.PublicKey
	genesis wire.GenesisID
}

func mustKey(t testing.TB, text string) primitives.SecretKey {
	k, err := primitives.ParseSecretKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func readRecording(t testing.TB, path string) *recorded {
	r := &recorded{t1: map[primitives.AccountID][]primitives.PublicKey{}, begin: map[int]*frameLine{}, end: map[int]float64{}}
	routed := 0
	for n, line := range testutil.Lines(t, path) {
		if n == 1 {
			var first struct{ Nodes []nodeLine }
			if err := json.Unmarshal(line, &first); err != nil {
				t.Fatal(err)
			}
			r.nodes = first.Nodes
			continue
		}
		var f frameLine
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatal(err)
		}
		m, err := wire.Decode(f.Frame)
		if err != nil {
			t.Fatal(err)
		}
		f.msg, f.Frame = m, nil
		r.end[f.Conn] = f.T
		// verifying takes a tenth of a millisecond each, and net/wire tests it
		if x, ok := m.(*wire.Routed); ok {
			kind := x.Body.BodyKind()
			if routed++; routed > 2000 && kind != wire.BodyStateHeaderRequest && kind != wire.BodyStatePartRequest {
				continue
			}
		}
		if h, ok := m.(*wire.Handshake); ok && r.epoch.IsZero() && h.OwnedAccount != nil {
			at := h.OwnedAccount.Timestamp
			r.epoch = time.Unix(at.Seconds, int64(at.Nanos)).Add(-time.Duration(f.T * 1e9))
			r.genesis = h.Chain.Genesis
		}
		r.frames = append(r.frames, f)
	}
	for i := range r.frames {
		if f := &r.frames[i]; r.begin[f.Conn] == nil {
			r.begin[f.Conn] = f
		}
	}
	for _, n := range r.nodes {
		if v := n.ValidatorKey; v != nil && v.AccountID < "node4" {
			r.t1[v.AccountID] = []primitives.PublicKey{mustKey(t, v.Secret).PublicKey()}
		}
	}
	return r
}

// mirror is a PeerManager in place of a neard: it receives what that neard received, and what both
// send is recorded by connection.
type mirror struct {
	*PeerManager
	t      testing.TB
	r      *recorded
	line   nodeLine
	key    primitives.SecretKey
	now    time.Time
	conns2 map[int]*mirrored
	told   map[string]bool // own announcements and hosts that it was given
	height primitives.Height
}

// mirrored is a connection, as the neard and as the mirror had it.
type mirrored struct {
	peer       string
	dialled    bool
	tier       wire.Tier
	over       bool
	theirs     []sent // sent by the neard
	ours       []sent
	got        []sent // received by both
	closedByUs string
}

type sent struct {
	at  time.Time
	msg wire.Message
}

func newMirror(t testing.TB, r *recorded, line nodeLine, now time.Time) *mirror {
	m := &mirror{t: t, r: r, line: line, key: mustKey(t, line.NodeKey.Secret), now: now, conns2: map[int]*mirrored{}, told: map[string]bool{}}
	m.boot()
	return m
}

// boot restarts the mirror's node.
func (m *mirror) boot() {
	local := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	m.PeerManager = New(Config{Key: m.key, Genesis: m.r.genesis, Version: 86, Oldest: 83, ListenAddr: netip.AddrPortFrom(local, m.line.Port),
		IdealLow: -1, MinOutbound: -1, NoOutboundT1: true}, m.now)
	head := headAt(0)
	head.T1 = m.r.t1
	m.step(head)
	if v := m.line.ValidatorKey; v != nil {
		m.step(Validator{AccountID: v.AccountID, Key: mustKey(m.t, v.Secret)})
	}
}

func (m *mirror) step(ev Event) {
	var verified []Event
	for _, e := range m.Step(m.now, ev) {
		switch e := e.(type) {
		case Write:
			if c := m.conns2[int(e.Conn)]; c != nil {
				c.ours = append(c.ours, sent{m.now, e.Msg})
			}
		case Close:
			if c := m.conns2[int(e.Conn)]; c != nil {
				c.closedByUs = e.Reason.String() + e.Ban.String()
			}
		case VerifyAnnouncements:
			verified = append(verified, AnnouncementsVerified{From: e.From, Good: e.List})
		}
	}
	for _, j := range verified {
		m.step(j)
	}
}

// how long before its handshake is seen a neard has known that it dials, in seconds
const dialAhead = 0.02 // seconds

// around reports what frames do not show: a dial of the neard, and a closed connection.
func (m *mirror) around(now float64) {
	for _, id := range slices.Sorted(maps.Keys(m.r.begin)) {
		f := m.r.begin[id]
		if h, ok := f.msg.(*wire.Handshake); ok && f.From == m.line.Name && f.To != f.From && m.conns2[id] == nil &&
			f.T >= now && f.T < now+dialAhead {
			m.out[h.Tier][m.peer(f.To).ID] = m.peer(f.To)
		}
		if c := m.conns2[id]; c != nil && !c.over && m.r.end[id] < now-0.005 {
			c.over = true
			m.step(Closed{ConnID(id)})
		}
	}
}

// until lets time pass, with all timers.
func (m *mirror) until(t time.Time) {
	for w := m.Wake(); !w.After(t); w = m.Wake() {
		m.now = w
		m.step(Tick{})
	}
	m.now = t
}

func (m *mirror) peer(name string) wire.PeerInfo {
	for _, n := range m.r.nodes {
		if n.Name == name {
			return wire.PeerInfo{ID: mustKey(m.t, n.NodeKey.Secret).PublicKey(), Addr: netip.AddrPortFrom(m.ListenAddr.Addr(), n.Port)}
		}
	}
	m.t.Fatalf("no node %s", name)
	return wire.PeerInfo{}
}

// frame handles a recorded frame of the neard.
func (m *mirror) frame(f *frameLine) {
	name := m.line.Name
	if f.From == f.To || f.From != name && f.To != name {
		return
	}
	m.until(m.r.epoch.Add(time.Duration(f.T * 1e9)))
	m.around(f.T)
	c := m.conns2[f.Conn]
	if c == nil {
		h, ok := f.msg.(*wire.Handshake)
		if !ok {
			return // the rest of an earlier connection
		}
		c = &mirrored{peer: f.To, dialled: f.From == name, tier: h.Tier}
		m.conns2[f.Conn] = c
		if c.dialled {
			m.step(Dialled{ConnID(f.Conn), m.peer(f.To), h.Tier})
		} else {
			c.peer = f.From
			m.step(Accepted{ConnID(f.Conn), netip.AddrPortFrom(m.ListenAddr.Addr(), 1)})
		}
	}
	if b, ok := f.msg.(*wire.Block); ok && b.Block.Header.Height > m.height {
		m.height = b.Block.Header.Height
		m.step(Head{Block: b.Block, T1: m.r.t1})
	}
	if f.To == name {
		c.got = append(c.got, sent{m.now, f.msg})
		m.step(Received{Conn: ConnID(f.Conn), Msg: f.msg})
		return
	}
	m.own(f.msg)
	c.theirs = append(c.theirs, sent{m.now, f.msg})
	if _, ok := f.msg.(*wire.Disconnect); ok {
		c.over = true
		m.step(Closed{ConnID(f.Conn)})
	}
}

// own reports what other parts of the neard caused: announcements and snapshots.
func (m *mirror) own(msg wire.Message) {
	switch msg := msg.(type) {
	case *wire.RoutingTable:
		for _, a := range msg.Accounts {
			if id := fmt.Sprint(a.AccountID, a.EpochID); a.PeerID == m.me && !m.told[id] {
				m.told[id] = true
				m.step(AnnouncementsVerified{Good: []*wire.Announcement{a}})
			}
		}
	case *wire.Routed:
		if k := msg.Body.BodyKind(); msg.Author == m.me && (k == wire.BodyStateHeaderRequest || k == wire.BodyStatePartRequest) {
			m.step(AskState{Host: msg.Target.PeerID})
		}
	case *wire.SnapshotHosts:
		for _, s := range msg.Hosts {
			if id := fmt.Sprint("host", s.SyncHash, s.EpochHeight); s.PeerID == m.me && !m.told[id] {
				m.told[id] = true
				m.step(Snapshot{s.SyncHash, s.EpochHeight, s.Shards})
			}
		}
	}
}

// mirrors runs a mirror for every neard of a recording. A neard that dials after all its
// connections are closed was restarted.
func (r *recorded) mirrors(t testing.TB) []*mirror {
	var out []*mirror
	for _, line := range r.nodes {
		m := (*mirror)(nil)
		for i := range r.frames {
			f := &r.frames[i]
			if f.From == line.Name && (m == nil || r.begin[f.Conn] == f && m.alone(f.T)) {
				m = newMirror(t, r, line, r.epoch.Add(time.Duration(f.T*1e9)-time.Millisecond))
				out = append(out, m)
			}
			if m != nil {
				m.frame(f)
			}
		}
	}
	return out
}

// alone returns whether all connections of the neard are closed.
func (m *mirror) alone(now float64) bool {
	for id := range m.conns2 {
		if m.r.end[id] >= now {
			return false
		}
	}
	return len(m.conns2) > 0
}

func first[M wire.Message](list []sent) (m M, at time.Time, ok bool) {
	for _, s := range list {
		if m, ok = s.msg.(M); ok {
			return m, s.at, true
		}
	}
	return m, at, false
}

const beginning = "testdata/beginning.jsonl.gz"

var cut = flag.Bool("cut", false, "write testdata/beginning.jsonl.gz anew from the recording that TROUPE_DATA holds")

// TestCutExtractsStartOfRecording extracts the start of a recorded network: eight seconds without
// bulk messages.
func TestCutExtractsStartOfRecording(t *testing.T) {
	if !*cut {
		t.Skip("writes testdata; run with -cut")
	}
	var kept [][]byte
	last := map[int]int{} // connection -> its last frame, which shows how long it lasts
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	for n, line := range testutil.Lines(t, sharedNet+"frames.jsonl.gz") {
		var f struct {
			T    float64
			Conn int
			Kind string
		}
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatal(err)
		}
		if f.T >= 8 {
			break
		}
		if n > 1 {
			if i, there := last[f.Conn]; there && i < 0 {
				kept[-i] = nil
			}
			last[f.Conn] = len(kept)
			if f.Kind == "routed" || f.Kind == "block_response" || f.Kind == "optimistic_block" {
				last[f.Conn] = -len(kept)
			}
		}
		kept = append(kept, append(bytes.Clone(line), '\n'))
	}
	for _, line := range kept {
		_, _ = z.Write(line)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(beginning, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", out.Len())
}

// TestPeerManagerSendsWhatNeardSent replaces each recorded neard by a PeerManager, which must send
// what that neard sent, where neither chance nor other parts of the neard decide: its handshakes
// and the answers to others, the start of a T2 connection, and the responses to requests for peers
// and accounts.
func TestPeerManagerSendsWhatNeardSent(t *testing.T) {
	for _, name := range []string{"frames.jsonl.gz", "late.jsonl.gz"} {
		path := sharedNet + name
		if _, err := os.Stat(path); err != nil || testing.Short() {
			if name != "frames.jsonl.gz" {
				continue
			}
			path = beginning
		}
		r := readRecording(t, path)
		count := map[string]int{}
		for _, m := range r.mirrors(t) {
			for _, id := range slices.Sorted(maps.Keys(m.conns2)) {
				m.compare(t, fmt.Sprintf("%s %s conn %d", name, m.line.Name, id), m.conns2[id], count)
			}
		}
		for what, least := range map[string]int{"the same direct peers told": 20 * count["other direct peers told"],
			"the same accounts told": 3 * count["other accounts told"], "edges in greetings": 20, "greetings compared": 5} {
			// the rest differ by the order within a millisecond
			if count[what] < least || count[what] == 0 {
				t.Errorf("%s: %d %s, at least %d", name, count[what], what, least)
			}
		}
		for _, what := range slices.Sorted(maps.Keys(count)) {
			t.Logf("%5d %s", count[what], what)
		}
	}
}

func (m *mirror) compare(t *testing.T, where string, c *mirrored, count map[string]int) {
	theirs, theirsAt, they := first[*wire.Handshake](c.theirs)
	ours, oursAt, we := first[*wire.Handshake](c.ours)
	kind := fmt.Sprintf("%v handshakes, dialled %v, ", c.tier, c.dialled)
	if _, _, answered := first[*wire.Handshake](c.got); they && !we && c.dialled && !answered && c.closedByUs == OutboundNotAllowed.String() {
		count["dials that crossed another, of which none came"]++ // which came first is chance
		return
	}
	if they != we {
		t.Errorf("%s: neard's handshake %v, ours %v (%s, over %v)", where, they, we, c.closedByUs, c.over)
		count[kind+"WRONG"]++
		return
	}
	if !they {
		count[kind+"not answered"]++
		return
	}
	count[kind+"sent"]++
	if ours.Version != theirs.Version || ours.Oldest != theirs.Oldest || ours.Sender != theirs.Sender || ours.Target != theirs.Target ||
		ours.PartialEdge != theirs.PartialEdge || ours.ListenPort != theirs.ListenPort || ours.Chain.Genesis != theirs.Chain.Genesis ||
		(ours.OwnedAccount == nil) != (theirs.OwnedAccount == nil) {
		t.Errorf("%s: handshake\n%+v, neard's\n%+v", where, ours, theirs)
	}
	limit := 200 * time.Millisecond
	if c.tier == wire.T2 && !c.dialled {
		limit = 1100 * time.Millisecond
	}
	if d := oursAt.Sub(theirsAt); d > limit || d < -limit {
		t.Errorf("%s: handshake %v after neard's", where, d)
	}
	if c.tier == wire.T2 {
		m.greeting(t, where, c, count)
		m.answers(t, where, c, count)
	}
}

func kinds(list []sent, n int) []wire.Kind {
	var out []wire.Kind
	for _, s := range list[:min(n, len(list))] {
		out = append(out, s.msg.Kind())
	}
	return out
}

// greeting compares the first messages of a T2 connection.
func (m *mirror) greeting(t *testing.T, where string, c *mirrored, count map[string]int) {
	if got, want := kinds(c.ours, 3), kinds(c.theirs, 3); !slices.Equal(got, want) {
		t.Errorf("%s: begins %v, neard's %v", where, got, want)
	}
	ours, _, _ := first[*wire.RoutingTable](c.ours)
	theirs, at, ok := first[*wire.RoutingTable](c.theirs)
	if !ok || ours == nil {
		return
	}
	count["greetings compared"]++
	a, b := nonces(ours), nonces(theirs)
	for k := range unite(a, b) {
		// Which of two batches a recent edge is in is chance.
		if newest := time.Unix(int64(max(a[k], b[k])), 0); a[k] != b[k] && at.Sub(newest) > 4*time.Second {
			t.Errorf("%s: edge %v %v with nonce %d, neard's %d", where, k.low, k.high, a[k], b[k])
		} else {
			count["edges in greetings"]++
		}
	}
}

// answers compares the i-th responses to requests for peers and for accounts.
func (m *mirror) answers(t *testing.T, where string, c *mirrored, count map[string]int) {
	ours, theirs := all[*wire.PeersResponse](c.ours), all[*wire.PeersResponse](c.theirs)
	if len(ours) != len(theirs) {
		t.Errorf("%s: %d answers about peers, neard's %d", where, len(ours), len(theirs))
	}
	for i := range min(len(ours), len(theirs)) {
		what := "other direct peers told"
		if slices.Equal(ids(ours[i].DirectPeers), ids(theirs[i].DirectPeers)) {
			what = "the same direct peers told"
		}
		count[what]++
	}
	full := func(list []*wire.AccountsData) []*wire.AccountsData {
		return slices.DeleteFunc(list, func(m *wire.AccountsData) bool { return m.Incremental || m.RequestingFullSync })
	}
	a, b := full(all[*wire.AccountsData](c.ours)), full(all[*wire.AccountsData](c.theirs))
	if len(a) != len(b) {
		t.Errorf("%s: %d answers about accounts, neard's %d", where, len(a), len(b))
	}
	for i := range min(len(a), len(b)) {
		what := "other accounts told"
		mine := m.signatures(a[i]) // maybe with one more: other parts decide when a key expires
		if !slices.ContainsFunc(m.signatures(b[i]), func(s string) bool { return !slices.Contains(mine, s) }) {
			what = "the same accounts told"
		}
		count[what]++
	}
}

func all[M wire.Message](list []sent) (out []M) {
	for _, s := range list {
		if m, ok := s.msg.(M); ok {
			out = append(out, m)
		}
	}
	return out
}

func ids(list []wire.PeerInfo) (out []string) {
	for _, p := range list {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}

// signatures returns those of the data in msg; for own data, which contains another time, its key.
func (m *mirror) signatures(msg *wire.AccountsData) (out []string) {
	for _, d := range msg.Data {
		if d.PeerID == m.me {
			out = append(out, d.AccountKey.String())
		} else {
			out = append(out, d.Signature.String())
		}
	}
	slices.Sort(out)
	return out
}

func nonces(r *wire.RoutingTable) map[edgeKey]uint64 {
	out := map[edgeKey]uint64{}
	for _, e := range r.Edges {
		out[keyOf(e)] = e.Nonce
	}
	return out
}

func unite[K comparable, V any](a, b map[K]V) map[K]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
