package engine_test

import (
	"bytes"
	"io"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/mainnetpeer"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/storage"
)

// peak returns how much the live heap grew at most while f ran, in bytes. It collects garbage before
// each sample.
func peak(f func()) uint64 {
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	most := before
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, live())
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return most - before
}

// proofHeaders are the blocks of a bootstrap: headers from a header chain, and a head with a body.
type proofHeaders struct {
	headers *engine.HeaderChain
	first   []*primitives.Block
	hashes  []primitives.Hash
	head    *primitives.Block
}

func (s *proofHeaders) Len() int { return len(s.first) + len(s.hashes) + 1 }

func (s *proofHeaders) Block(i int) (*primitives.Block, error) {
	switch {
	case i < len(s.first):
		return s.first[i], nil
	case i == s.Len()-1:
		return s.head, nil
	}
	h, err := s.headers.Header(s.hashes[i-len(s.first)])
	return &primitives.Block{Header: h}, err
}

// TestHeadersAfterProofAreNotHeldInMemory: the search for the sync block, and the begin and the end
// of a bootstrap, read the headers of more than two epochs with 100 approvers one by one. They take
// less memory than these headers, although the caches of the epoch manager take 20 MB.
func TestHeadersAfterProofAreNotHeldInMemory(t *testing.T) {
	c, err := mainnetpeer.New(mainnetpeer.Options{Epochs: 8, EpochLength: 3000, Extra: 60, Unsigned: true, File: filepath.Join(t.TempDir(), "headers")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer engine.SetMainnetGenesis(c.GenesisHash.String())()
	g, err := genesis.Parse(c.Genesis)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := engine.NewChain(&g.Config, primitives.NumberingRelease, nil, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(c.Genesis)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	open := func() *storage.Store {
		s, err := storage.Open(t.TempDir(), storage.Options{Identity: storage.Identity{ChainID: spec.ID, Numbering: primitives.NumberingRelease}, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	e, err := engine.Open(engine.Options{Chain: spec, Store: open(), Verify: func(primitives.Signature, []byte, primitives.PublicKey) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if err := e.HeaderChain().Jump(c.Proof); err != nil {
		t.Fatal(err)
	}
	in := &proofHeaders{headers: e.HeaderChain(), head: c.Head}
	cur := &c.Proof.Current
	in.first = []*primitives.Block{e.Genesis().Block, {Header: cur.PrevPrev}, {Header: cur.Prev}, {Header: cur.First}}
	for at := cur.First.Hash(); at != c.Head.Hash(); {
		list, _, err := c.After([]primitives.Hash{at}, 512)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := e.HeaderChain().Add(list); err != nil || n != len(list) {
			t.Fatalf("%d of %d headers, %v", n, len(list), err)
		}
		for _, h := range list {
			at = h.Hash()
			in.hashes = append(in.hashes, at)
		}
	}
	in.hashes = in.hashes[:len(in.hashes)-1]
	var list []*primitives.Block
	whole := peak(func() {
		for i := range in.Len() {
			b, err := in.Block(i)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, b)
		}
	})
	t.Logf("%d headers in memory: %d kB", len(list), whole/1000)
	list = nil
	bounded := func(what string, limit uint64, f func()) {
		t.Helper()
		got := peak(f)
		t.Logf("%s: %d kB at most", what, got/1000)
		if got > limit {
			t.Errorf("%s takes %d kB, want at most %d", what, got/1000, limit/1000)
		}
	}
	var at *engine.SyncBlock
	bounded("the search for the sync block", whole, func() {
		if at, err = e.HeaderChain().SyncBlock(); err != nil || at == nil || len(at.Path) < 6000 {
			t.Fatalf("%+v, %v", at, err)
		}
	})
	layout := at.Layout
	root, _ := chain.OutgoingReceiptsRoot(nil, layout)
	b := &engine.BootstrapInput{Blocks: in, Proof: c.Proof}
	for _, id := range layout.ShardIDs() {
		x := &primitives.Chunk{Header: primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{Version: primitives.ChunkInnerV5,
			PrevBlockHash: c.Head.Hash(), HeightCreated: c.Head.Header.Height + 1, ShardID: id, PrevOutgoingReceiptsRoot: root}}}
		x.Hash = x.Header.ChunkHash()
		b.Next = append(b.Next, x)
	}
	second := open()
	var sync *engine.BootstrapSync
	bounded("the begin of a bootstrap", whole, func() {
		if sync, err = engine.BeginBootstrap(engine.Options{Chain: spec, Store: second}, b); err != nil {
			t.Fatal(err)
		}
	})
	bounded("the end of a bootstrap", whole, func() {
		if err := sync.Finish(); err != nil {
			t.Fatal(err)
		}
	})
	if got := second.Tip().Head.Hash; got != c.Head.Hash() {
		t.Errorf("head %v, want %v", got, c.Head.Hash())
	}
	for _, i := range []int{0, len(in.hashes) / 2, len(in.hashes) - 1} {
		if _, err := second.BlockByHash(in.hashes[i]); err != nil {
			t.Errorf("header %d: %v", i, err)
		}
	}
}
