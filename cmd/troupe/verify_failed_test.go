package main

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/engine/badchunk"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestVerifyFailsIfChunkFailsAgain: a chunk that a node failed to apply is applied again, and the
// command fails if the chunk still cannot be applied.
func TestVerifyFailsIfChunkFailsAgain(t *testing.T) {
	f := &badchunk.File{Format: 1, Chain: "chain", Height: 7, Reason: "panic: boom", Context: badchunk.Context{
		Protocol: parameters.Newest(primitives.NumberingJune), Numbering: primitives.NumberingJune, Layout: primitives.SingleShardLayout().AppendBorsh(nil),
	}}
	for _, test := range []struct {
		fails bool
		want  string
	}{{false, "now it succeeds: 0 outcomes"}, {true, "the congestion info of shard 0 is missing"}} {
		f.Context.NewChunk = test.fails // the shard lacks its congestion info, which every chunk needs
		path, err := badchunk.Write(t.TempDir(), f)
		if err != nil {
			t.Fatal(err)
		}
		out := runLine([]string{"verify", path})
		if !strings.Contains(out, "shard 0 of block 7 of chain") || !strings.Contains(out, "panic: boom") || !strings.Contains(out, test.want) ||
			strings.Contains(out, errFails.Error()) != test.fails {
			t.Errorf("fails %v:\n%s", test.fails, out)
		}
	}
}
