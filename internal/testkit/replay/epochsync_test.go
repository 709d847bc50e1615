package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// epochSync is an epoch sync between neards: the genesis, the proof that one sent, and the headers
// after it.
type epochSync struct {
	Genesis []byte
	Proof   []byte
	Headers [][]byte // ascending
}

const epochSyncFile = "testdata/epochsync.json.zst"

// cutEpochSync makes the file from a recorded network.
func cutEpochSync(t *testing.T) {
	x := new(epochSync)
	var err error
	if x.Genesis, err = io.ReadAll(unzipped(t, filepath.Join(shared, "net", "late-genesis.json.gz"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(shared, "net", "late.jsonl.gz")
	lines := bufio.NewScanner(unzipped(t, path))
	lines.Buffer(nil, 64<<20)
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer unzip.Close()
	all := map[primitives.Height]*primitives.BlockHeader{}
	for lines.Scan() {
		var line struct{ Kind, Frame string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Kind != "epoch_sync_response" && line.Kind != "block_response" && line.Kind != "block_headers_response" {
			continue
		}
		frame, err := base64.StdEncoding.DecodeString(line.Frame)
		if err != nil {
			t.Fatal(err)
		}
		if raw := testutil.ProtoField(testutil.ProtoField(testutil.ProtoField(frame, 15), 1), 1); raw != nil {
			b := new(primitives.Block)
			if err := borsh.Unmarshal(raw, b); err != nil {
				t.Fatal(err)
			}
			all[b.Header.Height] = b.Header
		}
		for rest := testutil.ProtoField(frame, 13); len(rest) > 0; { // repeated field 1
			one := testutil.ProtoField(rest, 1)
			_, n := binary.Uvarint(rest[1:])
			rest = rest[1+n+len(one):]
			h := new(primitives.BlockHeader)
			if err := borsh.Unmarshal(testutil.ProtoField(one, 1), h); err != nil {
				t.Fatal(err)
			}
			all[h.Height] = h
		}
		if raw := testutil.ProtoField(testutil.ProtoField(frame, 35), 1); raw != nil {
			if x.Proof, err = unzip.DecodeAll(raw, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := new(headerchain.EpochProof)
	if err := borsh.Unmarshal(x.Proof, p); err != nil {
		t.Fatal(err)
	}
	for _, h := range slices.SortedFunc(maps.Values(all), func(a, b *primitives.BlockHeader) int { return cmp.Compare(a.Height, b.Height) }) {
		if h.Height > p.Current.First.Height && len(x.Headers) < 260 {
			x.Headers = append(x.Headers, h.AppendBorsh(nil))
		}
	}
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	if err := os.WriteFile(epochSyncFile, zip.EncodeAll(raw, nil), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readEpochSync reads the file.
func readEpochSync(t *testing.T) (x *epochSync, p *headerchain.EpochProof, list []*primitives.BlockHeader) {
	t.Helper()
	if *cut {
		cutEpochSync(t)
	}
	raw, err := os.ReadFile(epochSyncFile)
	if err != nil {
		t.Fatal(err)
	}
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer unzip.Close()
	if raw, err = unzip.DecodeAll(raw, nil); err != nil {
		t.Fatal(err)
	}
	x, p = new(epochSync), new(headerchain.EpochProof)
	if err := json.Unmarshal(raw, x); err != nil {
		t.Fatal(err)
	}
	if err := borsh.Unmarshal(x.Proof, p); err != nil {
		t.Fatal(err)
	}
	for _, raw := range x.Headers {
		h := new(primitives.BlockHeader)
		if err := borsh.Unmarshal(raw, h); err != nil {
			t.Fatal(err)
		}
		list = append(list, h)
	}
	return x, p, list
}

func verified(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
	return s.Verify(data, key)
}

// headersOf begins a chain of headers with the genesis of a recording.
func headersOf(t *testing.T, x *epochSync, s *headerRows, floor headerchain.Ref) *headerchain.Chain {
	t.Helper()
	c, genesis := genesisOf(t, x)
	h, err := headerchain.New(headerchain.Options{Genesis: genesis.Header(), Params: c.Params, Configs: c.Configs, Store: s, Head: s.head, Floor: floor, MaxHeightJump: 1000, Verify: verified})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func genesisOf(t *testing.T, x *epochSync) (*engine.ChainSpec, *engine.BlockNode) {
	t.Helper()
	e := engineOf(t, x, storage.NewMemDisk())
	defer e.Store().Close()
	return e.Chain(), e.Genesis()
}

func engineOf(t *testing.T, x *epochSync, disk *storage.MemDisk) *engine.Engine {
	t.Helper()
	rec := &Recording{Genesis: x.Genesis}
	c, err := Genesis(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := storage.OpenMemory(disk, storage.Options{Identity: storeIdentity(rec, c)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(engine.Options{Chain: c, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestNeardsEpochSyncProofIsValid: the proof that a neard sent is valid and encodes to the same
// bytes again. The headers after it are valid through later epochs, also over restarts.
func TestNeardsEpochSyncProofIsValid(t *testing.T) {
	x, p, list := readEpochSync(t)
	if !bytes.Equal(p.AppendBorsh(nil), x.Proof) {
		t.Error("the proof is encoded to other bytes")
	}
	rows := newHeaderRows()
	c := headersOf(t, x, rows, headerchain.Ref{})
	rows.refuses = errors.New("full")
	before := c.Head()
	if err := c.Jump(p); !errors.Is(err, rows.refuses) || c.Head() != before {
		t.Errorf("on a full disk: %v", err)
	}
	rows.refuses = nil
	if err := c.Jump(p); err != nil {
		t.Fatal(err)
	}
	first := headerchain.Ref{Hash: p.Current.First.Hash(), Height: p.Current.First.Height}
	if c.Head().Info.Hash != first.Hash || c.Final() != first {
		t.Errorf("head %v, final %v", c.Head().Info.Height, c.Final())
	}
	if err := c.Jump(p); !errors.Is(err, headerchain.ErrOld) {
		t.Errorf("the same proof again: %v", err)
	}
	epochs := map[primitives.EpochID]bool{}
	for i, h := range list {
		if i < 5 || i%11 == 0 {
			c = headersOf(t, x, rows, first)
		}
		if _, err := c.Add(h, false, 0); err != nil {
			t.Fatalf("header %d: %v", h.Height, err)
		}
		epochs[h.EpochID] = true
	}
	if t.Logf("a proof of %d epochs, %d headers of %d epochs behind it", len(p.Epochs), len(list), len(epochs)); len(epochs) < 3 {
		t.Error("the test reaches too little")
	}
	if _, err := c.Add(p.Current.Prev, false, 0); !errors.Is(err, headerchain.ErrKnown) {
		t.Errorf("a header of the proof: %v", err)
	}
}

// TestHeadersAfterProofAreAccepted: an engine accepts a proof and the headers after it in batches,
// over restarts. A wrong proof is its sender's fault.
func TestHeadersAfterProofAreAccepted(t *testing.T) {
	x, p, list := readEpochSync(t)
	disk := storage.NewMemDisk()
	e := engineOf(t, x, disk)
	wrong := *p
	wrong.Epochs = wrong.Epochs[1:]
	if err := e.HeaderChain().Jump(&wrong); engine.VerdictOf(err) != engine.VerdictInvalid {
		t.Errorf("a wrong proof: %v", err)
	}
	wrong.Epochs = p.Epochs[:1] // neards send such in their chain's fourth epoch
	if err := e.HeaderChain().Jump(&wrong); engine.VerdictOf(err) != engine.VerdictStale {
		t.Errorf("a proof of one epoch: %v", err)
	}
	if n, err := e.HeaderChain().Add(list[:3]); n != 0 || engine.VerdictOf(err) != engine.VerdictWaiting {
		t.Errorf("headers before the proof: %d taken, %v", n, err)
	}
	if err := e.HeaderChain().Jump(p); err != nil {
		t.Fatal(err)
	}
	if err := e.HeaderChain().Jump(p); engine.VerdictOf(err) != engine.VerdictStale {
		t.Errorf("the same proof again: %v", err)
	}
	for len(list) > 0 {
		if err := errors.Join(e.Close(), e.Store().Close()); err != nil {
			t.Fatal(err)
		}
		e = engineOf(t, x, disk)
		n := min(len(list), 17)
		bad := *list[n-1]
		bad.NextEpochID[0]++
		bad.Init()
		if taken, err := e.HeaderChain().Add(append(slices.Clone(list[:n-1]), &bad)); taken != n-1 || engine.VerdictOf(err) != engine.VerdictInvalid {
			t.Fatalf("%d of %d headers accepted before an invalid one: %v", taken, n, err)
		}
		if taken, err := e.HeaderChain().Add(list[:n]); taken != 1 || err != nil {
			t.Fatalf("%d headers accepted after the known ones: %v", taken, err)
		}
		if at, err := e.HeaderChain().Head(); err != nil || at.Hash != list[n-1].Hash() {
			t.Fatalf("the head is %v, %v", at, err)
		}
		list = list[n:]
	}
	if err := errors.Join(e.Close(), e.Store().Close()); err != nil {
		t.Fatal(err)
	}
}

// TestProofCheckDelaysNoHeaderReader: a reader of headers does not wait while the signatures of a
// proof are checked.
func TestProofCheckDelaysNoHeaderReader(t *testing.T) {
	x, p, _ := readEpochSync(t)
	_, genesis := genesisOf(t, x)
	s, err := storage.OpenMemory(storage.NewMemDisk(), storage.Options{Identity: storeIdentity(&Recording{Genesis: x.Genesis}, mustGenesis(t, x))})
	if err != nil {
		t.Fatal(err)
	}
	var e *engine.Engine
	checked, waited := 0, false
	verify := func(sig primitives.Signature, data []byte, key primitives.PublicKey) bool {
		if checked++; checked == 1 {
			answered := make(chan error, 1)
			go func() {
				at, err := e.HeaderChain().Head()
				if err == nil && at.Hash != genesis.Hash {
					err = errors.New("another head")
				}
				answered <- err
			}()
			select {
			case err := <-answered:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				waited = true
			}
		}
		return sig.Verify(data, key)
	}
	if e, err = engine.Open(engine.Options{Chain: mustGenesis(t, x), Store: s, Verify: verify}); err != nil {
		t.Fatal(err)
	}
	if err := e.HeaderChain().Jump(p); err != nil || checked == 0 || waited {
		t.Errorf("%v, %d signatures, waited: %v", err, checked, waited)
	}
	if at, err := e.HeaderChain().Head(); err != nil || at.Hash != p.Current.First.Hash() {
		t.Errorf("the head is %v, %v", at, err)
	}
	if err := errors.Join(e.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func mustGenesis(t *testing.T, x *epochSync) *engine.ChainSpec {
	t.Helper()
	c, err := Genesis(&Recording{Genesis: x.Genesis}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestChangedEpochSyncProofIsRefused: a proof with one changed bit is refused, unless the bit is of
// a header's signature, which is not verified, or of the hash format of the first epoch's
// producers: those are known from the genesis and are not hashed (nor by nearcore, epoch.rs:327).
// There is only one such bit, so it is tested by name.
func TestChangedEpochSyncProofIsRefused(t *testing.T) {
	x, p, _ := readEpochSync(t)
	_, genesis := genesisOf(t, x)
	unsigned := func(p *headerchain.EpochProof) []byte {
		q := *p
		q.Epochs = slices.Clone(p.Epochs)
		q.Epochs[0].Versioned = true
		raw := q.AppendBorsh(nil)
		for _, h := range []*primitives.BlockHeader{p.Current.First, p.Current.Prev, p.Current.PrevPrev} {
			raw = bytes.ReplaceAll(raw, h.Signature.AppendBorsh(nil), nil)
		}
		for i := range p.Epochs {
			raw = bytes.ReplaceAll(raw, p.Epochs[i].Final.Signature.AppendBorsh(nil), nil)
		}
		return raw
	}
	right := unsigned(p)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 8))
	refused, unread, same := 0, 0, 0
	for range 3000 {
		raw := bytes.Clone(x.Proof)
		raw[random.IntN(len(raw))] ^= 1 << random.IntN(8)
		q := new(headerchain.EpochProof)
		if borsh.Unmarshal(raw, q) != nil {
			unread++
			continue
		}
		err := q.Verify(genesis.Hash, p.Epochs[0].Producers, verified)
		switch {
		case err != nil && !errors.Is(err, headerchain.ErrProof):
			t.Fatal(err)
		case err != nil:
			refused++
		case !bytes.Equal(unsigned(q), right):
			t.Fatalf("a proof that differs was found right")
		default:
			same++
		}
	}
	if t.Logf("%d refused, %d not read, %d the same but for a signature", refused, unread, same); refused < 1000 || same == 0 {
		t.Error("the test reaches too little")
	}
	other := *p
	other.Epochs = slices.Clone(p.Epochs)
	other.Epochs[0].Versioned = !p.Epochs[0].Versioned
	if err := other.Verify(genesis.Hash, p.Epochs[0].Producers, verified); err != nil {
		t.Errorf("hashed otherwise where no hash is made: %v", err)
	}
	if err := p.Verify(primitives.Hash{1}, p.Epochs[0].Producers, verified); !errors.Is(err, headerchain.ErrProof) {
		t.Errorf("of another genesis: %v", err)
	}
	for name, change := range map[string]func(*headerchain.EpochProof){
		"one epoch":                 func(p *headerchain.EpochProof) { p.Epochs = p.Epochs[1:2] },
		"without the second":        func(p *headerchain.EpochProof) { p.Epochs = append(p.Epochs[:1:1], p.Epochs[2:]...) },
		"without the last":          func(p *headerchain.EpochProof) { p.Epochs = p.Epochs[:len(p.Epochs)-1] },
		"an endorsement too little": func(p *headerchain.EpochProof) { e := &p.Epochs[1]; e.Endorsements = e.Endorsements[1:] },
		"a third is silent": func(p *headerchain.EpochProof) {
			e := &p.Epochs[1]
			e.Endorsements = slices.Clone(e.Endorsements)
			for i := range (len(e.Endorsements) + 2) / 3 {
				e.Endorsements[i] = ""
			}
		},
		"the greatest height": func(p *headerchain.EpochProof) {
			h := *p.Epochs[1].Final
			h.Height = ^primitives.Height(0)
			p.Epochs[1].Final = h.Init()
		},
		"the first block of the epoch before": func(p *headerchain.EpochProof) {
			p.Current.First, p.Current.Prev = p.Current.Prev, p.Current.PrevPrev
		},
	} {
		q := *p
		q.Epochs = slices.Clone(p.Epochs)
		if change(&q); !errors.Is(q.Verify(genesis.Hash, p.Epochs[0].Producers, verified), headerchain.ErrProof) {
			t.Errorf("%s: found right", name)
		}
	}
}

// FuzzEpochProof: any bytes are refused, or are the only encoding of the decoded proof. Verifying
// it does not panic.
func FuzzEpochProof(f *testing.F) {
	raw, err := os.ReadFile(epochSyncFile)
	if err != nil {
		f.Fatal(err)
	}
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	defer unzip.Close()
	if raw, err = unzip.DecodeAll(raw, nil); err != nil {
		f.Fatal(err)
	}
	x, p := new(epochSync), new(headerchain.EpochProof)
	if err := errors.Join(json.Unmarshal(raw, x), borsh.Unmarshal(x.Proof, p)); err != nil {
		f.Fatal(err)
	}
	f.Add(x.Proof)
	f.Add(x.Proof[:len(x.Proof)/2])
	f.Fuzz(func(t *testing.T, in []byte) {
		q := new(headerchain.EpochProof)
		if borsh.Unmarshal(in, q) != nil {
			return
		}
		if out := q.AppendBorsh(nil); !bytes.Equal(out, in) {
			t.Errorf("%x became %x", in, out)
		}
		if err := q.Verify(p.Epochs[0].Final.EpochID, p.Epochs[0].Producers, verified); err != nil && !errors.Is(err, headerchain.ErrProof) {
			t.Error(err)
		}
	})
}
