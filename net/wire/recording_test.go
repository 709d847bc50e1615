package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// recorded is a line of a recording: a frame between two neards.
type recorded struct {
	T        float64
	Conn     int
	From, To string
	Kind     string
	Frame    []byte
}

// network is the first line of a recording: the nodes with all secrets.
type network struct {
	Nodes []struct {
		Name         string
		NodeKey      keyFile  `json:"node_key"`
		ValidatorKey *keyFile `json:"validator_key"`
	}
}

type keyFile struct {
	AccountID primitives.AccountID `json:"account_id"`
	SecretKey string               `json:"secret_key"`
}

// keys has the secrets of a recording by public key, and those of validators by account.
type keys struct {
	secret    map[primitives.PublicKey]primitives.SecretKey
	validator map[primitives.AccountID]primitives.PublicKey
}

func (k *keys) add(t testing.TB, line []byte) {
	var n network
	if err := json.Unmarshal(line, &n); err != nil {
		t.Fatal(err)
	}
	for _, node := range n.Nodes {
		for _, f := range []*keyFile{&node.NodeKey, node.ValidatorKey} {
			if f == nil {
				continue
			}
			key, err := primitives.ParseSecretKey(f.SecretKey)
			if err != nil {
				t.Fatal(err)
			}
			k.secret[key.PublicKey()] = key
			if f == node.ValidatorKey {
				k.validator[f.AccountID] = key.PublicKey()
			}
		}
	}
}

var cut = flag.Bool("cut", false, "write testdata/*.jsonl.gz anew from the recordings that TROUPE_DATA holds")

// TestCutExtractsFramesOfRecordings extracts from the full recordings what testdata has: the start
// of each connection, and some frames of each kind and body.
func TestCutExtractsFramesOfRecordings(t *testing.T) {
	if !*cut {
		t.Skip("writes testdata; run with -cut")
	}
	const opening, each = 16, 10 // frames
	for _, name := range []string{"frames.jsonl.gz", "late.jsonl.gz"} {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
		conns, kinds := map[int]int{}, map[string]int{}
		for n, line := range testutil.Lines(t, sharedNet+name) {
			if n > 1 {
				var f recorded
				if err := json.Unmarshal(line, &f); err != nil {
					t.Fatal(err)
				}
				m, err := Decode(f.Frame)
				if err != nil {
					t.Fatal(err)
				}
				kind := f.Kind
				if r, ok := m.(*Routed); ok {
					kind = r.Body.BodyKind().String()
				}
				if conns[f.Conn]++; conns[f.Conn] > opening && kinds[kind] >= each {
					continue
				}
				kinds[kind]++
			}
			_, _ = z.Write(append(line, '\n'))
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, out.Len())
		if err := os.WriteFile("testdata/"+name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var sharedNet = testutil.Data("neard/net/")

// recordings returns the full recordings, or those of testdata.
func recordings(t testing.TB) []string {
	if _, err := os.Stat(sharedNet + "frames.jsonl.gz"); err == nil && !testing.Short() {
		return []string{sharedNet + "frames.jsonl.gz", sharedNet + "late.jsonl.gz"}
	}
	return []string{"testdata/frames.jsonl.gz", "testdata/late.jsonl.gz"}
}

// signatureChecker checks the signatures of a recording: each is verified, and created again with
// its key. It remembers those it has checked, since most recur.
type signatureChecker struct {
	*testing.T
	keys
	done  map[primitives.Hash]bool
	count map[string]int
	where string
	// optimistic has the optimistic blocks by their place, random the random values of blocks
	optimistic map[slot]*primitives.OptimisticBlock
	random     map[primitives.Hash]primitives.Hash
}

// signature checks one.
func (j *signatureChecker) signature(what string, by primitives.PublicKey, data []byte, sig primitives.Signature) {
	j.Helper()
	id := primitives.HashBytes(append(append([]byte(by), data...), sig...))
	if j.done[id] {
		return
	}
	j.done[id] = true
	j.count[what+" signatures"]++
	key, known := j.secret[by]
	if !known {
		j.Errorf("%s: %s by %v, whose key is not known", j.where, what, by)
		return
	}
	if !sig.Verify(data, by) {
		j.Errorf("%s: %s by %v does not verify", j.where, what, by)
	}
	if again := key.Sign(data); again != sig {
		j.Errorf("%s: %s by %v made again is %v, want %v", j.where, what, by, again, sig)
	}
}

// validatorOf returns the validator that has signed data.
func (j *signatureChecker) validatorOf(data []byte, sig primitives.Signature) primitives.PublicKey {
	for _, key := range j.validator {
		if sig.Verify(data, key) {
			return key
		}
	}
	j.Errorf("%s: no validator has signed %x", j.where, data)
	return ""
}

// byValidator checks a signature of any validator.
func (j *signatureChecker) byValidator(what string, data []byte, sig primitives.Signature) {
	if id := primitives.HashBytes(append([]byte(sig), data...)); !j.done[id] {
		j.done[id] = true
		j.signature(what, j.validatorOf(data, sig), data, sig)
	}
}

func (j *signatureChecker) edge(e *Edge) {
	if !e.Verify() {
		j.Errorf("%s: edge %v %v %d does not verify", j.where, e.Low, e.High, e.Nonce)
	}
	nonce := e.Nonce
	if !e.Active() {
		nonce--
	}
	h := EdgeHash(e.Low, e.High, nonce)
	j.signature("edge", e.Low, h[:], e.LowSig)
	j.signature("edge", e.High, h[:], e.HighSig)
	again := NewEdge(e.High, e.Low, nonce, e.HighSig, e.LowSig)
	if !e.Active() {
		by := e.High
		if e.RemovedByLow {
			by = e.Low
		}
		j.count["removed edges"]++
		again = again.Remove(j.secret[by])
	}
	if *again != *e {
		j.Errorf("%s: edge made again is %+v, want %+v", j.where, again, e)
	}
}

func (j *signatureChecker) header(h *primitives.BlockHeader) {
	if id := h.Hash(); h.IsGenesis() {
		if h.Signature != primitives.ZeroED25519Signature {
			j.Errorf("%s: genesis is signed", j.where)
		}
	} else {
		j.byValidator("header", id[:], h.Signature)
	}
}

// slot is the place of a block in the chain.
type slot struct {
	parent primitives.Hash
	height primitives.Height
}

// block compares a block with the optimistic block that its producer has sent before, and verifies
// the VRF output that both have. neard takes these fields of a block from its optimistic block.
func (j *signatureChecker) block(b *primitives.Block) {
	h := b.Header
	if _, again := j.random[h.Hash()]; again {
		return
	}
	j.random[h.Hash()] = h.RandomValue
	o := j.optimistic[slot{h.PrevHash, h.Height}]
	if o == nil {
		return
	}
	if o.Timestamp != h.Timestamp || o.RandomValue != h.RandomValue || o.VRFValue != b.Body.VRFValue || o.VRFProof != b.Body.VRFProof {
		j.Errorf("%s: block %d differs from its optimistic block", j.where, h.Height)
	}
	if j.count["blocks after their optimistic block"]++; o.RandomValue != primitives.HashBytes(o.VRFValue[:]) {
		j.Errorf("%s: random value of optimistic block %d", j.where, h.Height)
	}
	if random, ok := j.random[h.PrevHash]; ok {
		hash := o.Hash()
		if j.count["vrf outputs"]++; !primitives.VerifyVRF(j.validatorOf(hash[:], o.Signature), random[:], &o.VRFValue, &o.VRFProof) {
			j.Errorf("%s: VRF output of optimistic block %d", j.where, h.Height)
		}
	}
}

func (j *signatureChecker) message(m Message) {
	switch m := m.(type) {
	case *Handshake:
		h := EdgeHash(m.Sender, m.Target, m.PartialEdge.Nonce)
		j.signature("handshake", m.Sender, h[:], m.PartialEdge.Signature)
		if again := SignEdge(j.secret[m.Sender], m.Target, m.PartialEdge.Nonce); again != m.PartialEdge {
			j.Errorf("%s: half edge made again is %+v", j.where, again)
		}
		if o := m.OwnedAccount; o != nil {
			j.signature("owned account", o.AccountKey, o.Payload, o.Signature)
			again := OwnedAccount{PeerID: o.PeerID, Timestamp: o.Timestamp}
			if again.Sign(j.secret[o.AccountKey]); !bytes.Equal(again.Payload, o.Payload) || again.Signature != o.Signature {
				j.Errorf("%s: owned account made again is %x, want %x", j.where, again.Payload, o.Payload)
			}
		}
	case *RoutingTable:
		for _, e := range m.Edges {
			j.edge(e)
		}
		for _, a := range m.Accounts {
			h := a.Hash()
			j.signature("announcement", j.validator[a.AccountID], h[:], a.Signature)
			if !a.Verify(j.validator[a.AccountID]) {
				j.Errorf("%s: announcement of %s does not verify", j.where, a.AccountID)
			}
		}
	case *AccountsData:
		for _, d := range m.Data {
			j.signature("account data", d.AccountKey, d.Payload, d.Signature)
			again := AccountData{PeerID: d.PeerID, Proxies: d.Proxies, Version: d.Version, Timestamp: d.Timestamp}
			if err := again.Sign(j.secret[d.AccountKey]); err != nil || !bytes.Equal(again.Payload, d.Payload) {
				j.Errorf("%s: account data made again is %x, want %x, %v", j.where, again.Payload, d.Payload, err)
			}
		}
	case *SnapshotHosts:
		for _, s := range m.Hosts {
			h := s.Hash()
			j.signature("snapshot host", s.PeerID, h[:], s.Signature)
			if again := NewSnapshotHost(j.secret[s.PeerID], s.SyncHash, s.EpochHeight, s.Shards); again.Signature != s.Signature {
				j.Errorf("%s: host made again has another signature", j.where)
			}
		}
	case *Block:
		j.header(m.Block.Header)
		j.block(m.Block)
	case *Headers:
		for _, h := range m.Headers {
			j.header(h)
		}
	case *OptimisticBlock:
		if h := m.Block.Hash(); h != m.WireHash {
			j.Errorf("%s: hash %v on the wire, %v made again", j.where, m.WireHash, h)
		} else {
			j.byValidator("optimistic block", h[:], m.Block.Signature)
		}
		j.optimistic[slot{m.Block.PrevBlockHash, m.Block.Height}] = m.Block
	case *Routed:
		j.routed(m)
	}
}

func (j *signatureChecker) routed(m *Routed) {
	h := m.Hash()
	before := j.count["routed signatures"]
	j.signature("routed", m.Author, h[:], m.Signature)
	fresh := j.count["routed signatures"]
	sample := fresh != before && fresh%50 == 1 // one signature per message is enough
	if body := m.Body.AppendBorsh([]byte{byte(m.Body.BodyKind())}); !bytes.Equal(body, m.tagged) {
		j.Errorf("%s: %v encodes to %x, was %x", j.where, m.Body.BodyKind(), body, m.tagged)
	}
	if m.CreatedAt == nil || uint32(m.TTL)+m.Hops != StartTTL {
		j.Errorf("%s: ttl %d, hops %d, created at %v", j.where, m.TTL, m.Hops, m.CreatedAt)
	} else if sample {
		if again := NewRouted(j.secret[m.Author], m.Target, m.Body, *m.CreatedAt); again.Signature != m.Signature {
			j.Errorf("%s: message made again has another signature", j.where)
		}
	}
	if fresh != before {
		j.v3(m)
	}
	switch b := m.Body.(type) {
	case *BlockApproval:
		j.signature("approval", j.validator[b.AccountID], b.Inner.SignedBytes(b.Target), b.Signature)
	case *PartialWitness:
		j.byValidator("witness part", b.SignedBytes(), b.Signature)
	case *PartialWitnessForward:
		j.byValidator("witness part", b.SignedBytes(), b.Signature)
	case *ContractAccesses:
		j.byValidator("contract accesses", b.SignedBytes(), b.Signature)
	case *ContractDeploys:
		j.byValidator("contract deploys", b.SignedBytes(), b.Signature)
	case *PartialChunk:
		h := b.Header.ChunkHash()
		j.byValidator("chunk", h[:], b.Header.Signature)
	case *ChunkForward:
		j.byValidator("chunk", b.ChunkHash[:], b.Signature)
	case *ForwardTx:
		h := b.Hash()
		if !b.Signature.Verify(h[:], b.PublicKey) {
			j.Errorf("%s: transaction %v does not verify", j.where, h)
		}
		j.count["transactions"]++
	case *ChunkEndorsement:
		by := j.validator[b.Metadata.AccountID]
		j.signature("endorsement", by, primitives.ChunkEndorsementBytes(b.ChunkHash), b.Signature)
		j.signature("endorsement", by, b.Metadata.AppendBorsh(nil), b.MetadataSignature)
	}
}

// v3 checks that the third form gives the same hash and signature.
func (j *signatureChecker) v3(m *Routed) {
	back, err := Decode(m.AppendV3(nil))
	if err != nil {
		j.Errorf("%s: the third form of %v: %v", j.where, m.Body.BodyKind(), err)
		return
	}
	if again := back.(*Routed); again.Hash() != m.Hash() || !bytes.Equal(Append(nil, again), Append(nil, m)) {
		j.Errorf("%s: %v is another message in the third form", j.where, m.Body.BodyKind())
	}
}

// TestRecordedFramesRoundTrip decodes every frame that two networks of neards exchanged, encodes it
// to the same bytes, and verifies and creates again every signature that this package supports.
func TestRecordedFramesRoundTrip(t *testing.T) {
	t.Parallel()
	for _, path := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			j := &signatureChecker{T: t, keys: keys{map[primitives.PublicKey]primitives.SecretKey{}, map[primitives.AccountID]primitives.PublicKey{}},
				optimistic: map[slot]*primitives.OptimisticBlock{}, random: map[primitives.Hash]primitives.Hash{},
				done: map[primitives.Hash]bool{}, count: map[string]int{}}
			for n, line := range testutil.Lines(t, path) {
				if n == 1 {
					j.add(t, line)
					continue
				}
				var f recorded
				if err := json.Unmarshal(line, &f); err != nil {
					t.Fatal(err)
				}
				j.where = path + " line " + f.Kind
				j.count["frames"]++
				m, err := Decode(f.Frame)
				if err != nil {
					t.Fatalf("line %d, %s: %v\n%s", n, f.Kind, err, base64.StdEncoding.EncodeToString(f.Frame))
				}
				if m.Kind().String() != f.Kind {
					t.Errorf("line %d is %v, want %s", n, m.Kind(), f.Kind)
				}
				if again := Append(nil, m); !bytes.Equal(again, f.Frame) {
					t.Fatalf("line %d, %s becomes\n%x, was\n%x", n, f.Kind, again, f.Frame)
				}
				j.message(m)
				if t.Failed() && n%1000 == 0 {
					t.FailNow()
				}
			}
			if j.count["frames"] == 0 {
				t.Error("no frames")
			}
			for what, n := range j.count {
				t.Logf("%7d %s", n, what)
			}
		})
	}
}
