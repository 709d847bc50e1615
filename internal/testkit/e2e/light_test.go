//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/lightclient"
	"github.com/troupe-chain/troupe/primitives"
)

// lightClient follows a network with a light client from a block on. It requests each light client
// block from another node and requires the same reply from all. It also requests proofs of
// transactions. Only the first block is trusted. It returns the number of verified light client
// blocks, and of epochs.
func (b *mixedCluster) lightClient(from string, txs []sent) (steps, epochs int) {
	t := b.t
	t.Helper()
	ask := func(p *process, method string, params any) json.RawMessage {
		for limit := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			r, err := p.call(method, params)
			if err == nil && r.Error == nil {
				return r.Result
			}
			if time.Now().After(limit) {
				t.Fatalf("%s %v: error %v, reply text %s", method, params, err, replyText(r))
			}
		}
	}
	var head struct {
		Header struct {
			Epoch primitives.EpochID `json:"epoch_id"`
		} `json:"header"`
	}
	b.p[0].get("block", map[string]any{"finality": "final"}, &head)
	var c *lightclient.Client
	for asked := 0; ; asked++ {
		if c != nil {
			hash, err := c.Head.Hash()
			if err != nil {
				t.Fatal(err)
			}
			from = hash.String()
		}
		reply := ask(b.p[asked%len(b.p)], "next_light_client_block", map[string]any{"last_block_hash": from})
		var next lightclient.Block
		if bytes.Equal(reply, []byte("{}")) {
			break
		}
		if err := json.Unmarshal(reply, &next); err != nil {
			t.Fatalf("%v in %.300s", err, reply)
		}
		if c == nil {
			c = &lightclient.Client{Head: next.Header, Producers: map[primitives.EpochID][]lightclient.Producer{next.Inner.NextEpochID: next.NextBPs}}
			continue
		}
		was := c.Head.Inner
		// the chain grows between the requests
		if next.Inner.Height <= was.Height || next.Inner.EpochID == was.EpochID {
			break
		}
		for i, p := range b.p {
			if next.Inner.EpochID == head.Header.Epoch { // which has not ended
				break
			}
			other := ask(p, "next_light_client_block", map[string]any{"last_block_hash": from})
			// the node has not received the block by which that one is final
			for n := 0; n < 50 && bytes.Equal(other, []byte("{}")); n++ {
				time.Sleep(100 * time.Millisecond)
				other = ask(p, "next_light_client_block", map[string]any{"last_block_hash": from})
			}
			if !bytes.Equal(other, reply) {
				t.Errorf("%s %d returned a different next light client block:\n%.2000s\n%.2000s", b.kind(i), i, other, reply)
			}
		}
		if err := c.Advance(reply); err != nil {
			t.Fatalf("after height %d, from %s %d: %v", was.Height, b.kind(asked%len(b.p)), asked%len(b.p), err)
		}
		steps++
		if c.Head.Inner.EpochID != was.EpochID {
			epochs++
		}
	}
	if c == nil {
		t.Fatal("no light client block returned")
	}
	hash, err := c.Head.Hash()
	if err != nil {
		t.Fatal(err)
	}
	proven := 0
	for i := 0; i < len(txs); i += 1 + len(txs)/8 {
		for k, p := range b.p {
			r, err := p.call("light_client_proof", map[string]any{"type": "transaction", "transaction_hash": txs[i].hash, "sender_id": txs[i].sender, "light_client_head": hash.String()})
			if err != nil || r.Error != nil { // of a block after the light client's head
				continue
			}
			o, err := lightclient.ProvenOutcome(c.Head.Inner.BlockMerkleRoot, r.Result, true)
			if err != nil || o.Outcome.ID.String() != txs[i].hash {
				t.Errorf("%s %d: proof of %s: %v", b.kind(k), k, txs[i].hash, err)
			}
			proven++
		}
	}
	t.Logf("a light client: %d steps over %d epochs proven, to %d; %d proofs of transactions", steps, epochs, c.Head.Inner.Height, proven)
	if proven < len(b.p) {
		t.Errorf("%d proofs", proven)
	}
	return steps, epochs
}
