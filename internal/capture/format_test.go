package capture

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// recordings of neards, whole or what net/wire keeps of them.
func recordings(t *testing.T) []string {
	shared := testutil.Data("neard/net/")
	if _, err := os.Stat(shared + "frames.jsonl.gz"); err == nil && !testing.Short() {
		return []string{shared + "frames.jsonl.gz", shared + "late.jsonl.gz"}
	}
	return []string{"../../net/wire/testdata/frames.jsonl.gz", "../../net/wire/testdata/late.jsonl.gz"}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestEveryRecordedFrameIsFormatted formats every frame of the neards' recordings as text.
func TestEveryRecordedFrameIsFormatted(t *testing.T) {
	for _, path := range recordings(t) {
		n, frames := Names{}, 0
		for l, err := range Lines(open(t, path)) {
			if err != nil {
				t.Fatal(err)
			}
			if n.Add(l); l.Frame == nil {
				continue
			}
			if frames++; kindOf(l.Frame) != l.Kind {
				t.Errorf("%s begins as %s", l.Kind, kindOf(l.Frame))
			}
			words, _ := message(l, n)
			if words == "" || strings.HasPrefix(words, "refused") || strings.Contains(words, "\n") || strings.Contains(words, "%!") {
				t.Fatalf("%s: words %q", l.Kind, words)
			}
		}
		if frames < 500 {
			t.Errorf("%s has %d frames", path, frames)
		}
	}
}

var rewrite = flag.Bool("update", false, "write testdata/words.txt again")

// TestMessageWordsMatchGoldenFile checks the text of the first message of each kind in the neards'
// recordings, and of kinds that do not occur in them.
func TestMessageWordsMatchGoldenFile(t *testing.T) {
	n, seen := Names{}, map[string]bool{}
	var out strings.Builder
	tell := func(kind string, frame []byte) {
		words, body := message(&Line{Frame: frame}, n)
		if strings.HasPrefix(words, "refused") && kind != "rubbish" {
			t.Errorf("%s is %s", kind, words)
		}
		if kind += " " + body; !seen[kind] {
			seen[kind] = true
			fmt.Fprintf(&out, "%s: %s\n", strings.TrimSpace(kind), words)
		}
	}
	for l, err := range Lines(open(t, "../../net/wire/testdata/frames.jsonl.gz")) {
		if err != nil {
			t.Fatal(err)
		}
		if n.Add(l); l.Frame != nil {
			tell(l.Kind, l.Frame)
		}
	}
	for _, m := range others() {
		tell(m.Kind().String()+" (made)", wire.Append(nil, m))
	}
	tell("rubbish", []byte{0xff, 0xff})
	if *rewrite {
		if err := os.WriteFile("testdata/words.txt", []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(testutil.Read(t, "testdata/words.txt")); out.String() != want {
		t.Errorf("words differ from testdata/words.txt (-update writes it again):\n%s", out.String())
	}
	// Every kind of message and of body has words.
	for k := wire.Kind(0); k < 50; k++ {
		name := k.String()
		switch {
		case strings.HasPrefix(name, "kind "), k == wire.KindNonceResponse, k == wire.KindRoutedV3, k == wire.KindRouted: // read as others
		case !seen[name+" "] && !seen[name+" (made) "]:
			t.Errorf("no text for %s", name)
		}
	}
	for k := wire.BodyKind(0); k < 50; k++ {
		name := k.String()
		if !strings.HasPrefix(name, "body ") && !seen["routed "+name] && !seen["routed (made) "+name] {
			t.Errorf("no text for the body %s", name)
		}
	}
}

// others are messages that the recording lacks.
func others() (out []wire.Message) {
	key, other := primitives.SecretKeyFromSeed(primitives.ED25519, "node0"), primitives.SecretKeyFromSeed(primitives.ED25519, "else")
	at := netip.MustParseAddrPort("127.0.0.1:24567")
	hash := primitives.HashBytes([]byte("x"))
	info := wire.PeerInfo{ID: key.PublicKey(), Addr: at, AccountID: "node0"}
	h := wire.EdgeHash(key.PublicKey(), other.PublicKey(), 5)
	edge := wire.NewEdge(key.PublicKey(), other.PublicKey(), 5, key.Sign(h[:]), other.Sign(h[:]))
	tx := &primitives.SignedTransaction{Transaction: primitives.Transaction{SignerID: "alice", PublicKey: key.PublicKey(), ReceiverID: "bob", BlockHash: hash,
		Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}, Signature: key.Sign(hash[:])}
	out = append(out,
		&wire.HandshakeFailure{Peer: info, Reason: wire.VersionMismatch, Version: 86, Oldest: 83},
		&wire.LastEdge{Edge: edge.Remove(key)}, &wire.NonceRequest{PartialEdge: wire.SignEdge(key, other.PublicKey(), 7)},
		&wire.Transaction{Transaction: tx}, &wire.Challenge{Borsh: []byte{1, 2}}, &wire.Disconnect{RemoveFromStore: true},
		&wire.StateHeaderRequest{ShardID: 3, SyncHash: hash}, &wire.StatePartRequest{ShardID: 3, SyncHash: hash, Part: 4})
	chunk := primitives.ChunkKey{ShardID: 2, HeightCreated: 9}
	anchor := &primitives.ChunkAnchor{PrevBlock: hash, PrevPrevBlock: primitives.HashBytes([]byte("y"))}
	part := primitives.PartialWitness{ShardID: 2, HeightCreated: 9, Anchor: anchor, Ord: 1, Part: []byte{1}, EncodedLength: 1, Signature: key.Sign(hash[:])}
	header := primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{Version: primitives.ChunkInnerV5, HeightCreated: 9, ShardID: 2}, Signature: key.Sign(hash[:])}
	for _, b := range []wire.Body{
		&wire.TxStatusRequest{Signer: "alice", Hash: hash}, &wire.TxStatusResponse{Outcome: begun()},
		&wire.Ping{Nonce: 1, Source: key.PublicKey()}, &wire.Pong{Nonce: 1, Source: other.PublicKey()},
		&wire.VersionedWitness{VersionedPartialWitness: primitives.VersionedPartialWitness{PartialWitness: part}},
		&wire.VersionedWitnessForward{VersionedPartialWitness: primitives.VersionedPartialWitness{PartialWitness: part}},
		&wire.PartialChunk{PartialChunk: primitives.PartialChunk{Header: header, Anchor: &primitives.PartialChunkAnchor{PrevPrevBlock: anchor.PrevPrevBlock, EpochID: hash}}},
		&wire.ContractAccesses{ContractAccesses: primitives.ContractAccesses{Key: chunk, Contracts: []primitives.Hash{hash}, Anchor: anchor, Signature: key.Sign(hash[:])}},
		&wire.ContractDeploys{PartialContractDeploys: primitives.PartialContractDeploys{Key: chunk, Part: []byte{1}, EncodedLength: 1, Anchor: anchor, Signature: key.Sign(hash[:])}},
		&wire.ContractCodeRequest{ContractCodeRequest: primitives.ContractCodeRequest{Requester: "node0", Key: chunk, Contracts: []primitives.Hash{hash}, Signature: key.Sign(hash[:])}},
		&wire.ContractCodeResponse{ContractCodeResponse: primitives.ContractCodeResponse{Key: chunk, Responder: "node1", Compressed: []byte{1}, Signature: key.Sign(hash[:])}},
	} {
		out = append(out, wire.NewRouted(key, wire.ToPeer(other.PublicKey()), b, 1000))
	}
	return out
}

// begun is the outcome of a transaction of which nothing but its start is known.
func begun() (b []byte) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x").PublicKey()
	id := primitives.AccountID("a.near")
	b = append(key.AppendBorsh(id.AppendBorsh([]byte{1})), make([]byte, 8)...)
	b = append(id.AppendBorsh(b), make([]byte, 4+8)...)
	b = append(primitives.ZeroED25519Signature.AppendBorsh(b), make([]byte, 32+1+1+4+32+32+4+4+8+16)...)
	return append(id.AppendBorsh(b), make([]byte, 1+4+1+1+4)...)
}

// TestFilterSelectsLines checks which lines a filter selects.
func TestFilterSelectsLines(t *testing.T) {
	const path = "../../net/wire/testdata/frames.jsonl.gz"
	write := func(f Filter) string {
		t.Helper()
		var b bytes.Buffer
		if err := Write(&b, open(t, path), f, Names{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	all := write(Filter{Conn: -1})
	for _, c := range []struct {
		f    Filter
		keep func(line string) bool
	}{
		{Filter{Conn: 1}, func(l string) bool { return strings.Contains(l, " #1 ") }},
		{Filter{Conn: -1, Node: "node5"}, func(l string) bool { return strings.Contains(l, " node5 > ") || strings.Contains(l, " > node5 ") }},
		{Filter{Conn: -1, Kinds: []string{"blockapproval", "peers_request"}}, func(l string) bool {
			return strings.Contains(l, ": BlockApproval of ") || strings.Contains(l, " peers_request: ")
		}},
		{Filter{Conn: -1, From: 1, Until: 2}, func(l string) bool { return l >= "    1.0000" && l <= "    2.0000 #" }},
	} {
		want := ""
		for l := range strings.Lines(all) {
			if c.keep(l) {
				want += l
			}
		}
		if got := write(c.f); got != want || want == "" || want == all {
			t.Errorf("%+v: %d lines, want %d", c.f, strings.Count(got, "\n"), strings.Count(want, "\n"))
		}
	}
	var b bytes.Buffer
	if err := Summarize(&b, open(t, path), Filter{Conn: -1, Kinds: []string{"peers_request"}}, Names{}); err != nil {
		t.Fatal(err)
	}
	want := "frames bytes longest refused kind 43 344 8 0 peers_request 43 344 8 0 in 29 connections, 250.1 s"
	if got := strings.Join(strings.Fields(b.String()), " "); got != want {
		t.Errorf("summary = %s, want %s", got, want)
	}
}

// TestRecordingErrorNamesTheLine: the error for an invalid recording names the line.
func TestRecordingErrorNamesTheLine(t *testing.T) {
	whole := testutil.Read(t, "../../net/wire/testdata/late.jsonl.gz")
	for _, c := range []struct {
		in   []byte
		want string
	}{
		{[]byte("{\"t\":1,\"conn\":2,\"note\":\"x\"}\n{"), "line 2: unexpected EOF"},
		{[]byte("{\"t\":1,\"conn\":2,\"note\":\"x\"}\nnonsense\n{}"), "line 2: invalid character"},
		{whole[:len(whole)/2], "unexpected EOF"},
	} {
		var b bytes.Buffer
		err := Write(&b, bytes.NewReader(c.in), Filter{Conn: -1}, Names{})
		var line *LineError
		if err == nil || !errors.As(err, &line) || !strings.Contains(err.Error(), c.want) || b.Len() == 0 {
			t.Errorf("%v after %d bytes, want %s", err, b.Len(), c.want)
		}
	}
}
