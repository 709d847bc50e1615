//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// chunkVerdict is the result of sending a form of a chunk to the honest nodes.
type chunkVerdict struct {
	form   *chunkForm
	hash   primitives.Hash
	height primitives.Height
	voted  [honestNodes]string // "endorsed", "silent", or "unheard": no endorsement of that height arrived
	within bool                // the chunk is in the block of its height
}

// complete returns whether all endorsements of its height arrived, or none was expected.
func (o *chunkVerdict) complete() bool {
	for _, v := range o.voted {
		if v == "unheard" {
			return false
		}
	}
	return true
}

// add merges the result of an earlier attempt with the same form.
func (o *chunkVerdict) add(was *chunkVerdict) {
	for i, v := range was.voted {
		if v == "endorsed" || o.voted[i] == "unheard" {
			o.voted[i] = v
		}
	}
	o.within = o.within || was.within
}

// sendChunkForm sends all honest nodes the byzantine node's next chunk in another form and records
// which endorse it. nil: the form does not apply to that chunk.
func (c *byzantineCluster) sendChunkForm(todo []*chunkForm) (o *chunkVerdict) {
	t := c.t
	t.Helper()
	b := c.nextBundle(time.Minute)
	for _, f := range todo {
		x, err := c.unpack(b)
		if err != nil {
			t.Errorf("chunk of shard %d at %d: %v", b.key.ShardID, b.key.HeightCreated, err)
			return nil
		}
		if !f.change(x) {
			continue
		}
		if err := c.send(b, x); err != nil {
			t.Errorf("%s: error %v", f.name, err)
			return nil
		}
		o = &chunkVerdict{form: f, hash: x.ChunkHash(), height: b.key.HeightCreated}
		break
	}
	if o == nil {
		return nil
	}
	for limit := time.Now().Add(15 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		on := true
		for _, p := range c.p[:honestNodes] {
			on = on && p.tip() > uint64(o.height)
		}
		if on {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range honestNodes {
		account := primitives.AccountID(fmt.Sprint("node", i))
		switch p := &c.parcel; {
		case p.votes[o.hash][account]:
			o.voted[i] = "endorsed"
		case p.asked[o.height][account]:
			o.voted[i] = "silent"
		default:
			o.voted[i] = "unheard"
		}
	}
	var at struct {
		Chunks []struct {
			Hash string `json:"chunk_hash"`
		} `json:"chunks"`
	}
	r, err := c.p[0].call("block", map[string]any{"block_id": o.height})
	if err == nil && r.Error == nil && json.Unmarshal(r.Result, &at) == nil {
		for _, k := range at.Chunks {
			o.within = o.within || k.Hash == o.hash.String()
		}
	}
	return o
}

// transfers has the first honest node submit transfers until stop is closed.
func (c *byzantineCluster) transfers(stop chan struct{}) *sync.WaitGroup {
	var group sync.WaitGroup
	s := c.p[0].signer()
	group.Go(func() {
		for i := 1; ; i++ {
			if i%50 == 0 { // sign on a recent block
				s = c.p[0].signer()
			}
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Millisecond):
			}
			encoded, _ := s.next()
			if _, err := c.p[0].call("broadcast_tx_async", []string{encoded}); err != nil {
				c.t.Error(err)
			}
		}
	})
	return &group
}

// TestNeardAndTroupeAgreeOnChunkForms: the producer of a shard sends chunks and witnesses that
// nearcore's code never writes, one form after the other, to two neards and a Troupe. All must
// agree on each form, and on the results of the chunks that are included.
func TestNeardAndTroupeAgreeOnChunkForms(t *testing.T) { chunkForms(t, false) }

// TestNeardAndTroupeAgreeOnWitnessForms is TestNeardAndTroupeAgreeOnChunkForms with a neard and a
// troupe that track no shard, so that they validate by witness alone.
func TestNeardAndTroupeAgreeOnWitnessForms(t *testing.T) { chunkForms(t, true) }

func chunkForms(t *testing.T, blind bool) {
	c := newByzantineCluster(t, 2, 60, blind)
	c.mu.Lock()
	c.open = true
	c.mu.Unlock()
	c.until(5, 2*time.Minute)
	c.signer = c.p[0].signerOf(c.homes[honestNodes].home)
	c.shard = c.shardOf(c.signer.key.AccountID)
	var todo []*chunkForm
	for _, l := range [][]chunkForm{wrongReceipts, rightChunks, wrongChunks} {
		for i := range l {
			todo = append(todo, &l[i])
		}
	}
	stop := make(chan struct{})
	defer c.transfers(stop).Wait() // so that chunks produce receipts
	defer close(stop)
	asked, before := map[*chunkForm]int{}, map[*chunkForm]*chunkVerdict{}
	for begun := time.Now(); len(todo) > 0 && time.Since(begun) < 8*time.Minute; {
		o := c.sendChunkForm(todo)
		if o == nil {
			continue
		}
		for i, f := range todo {
			if f == o.form {
				todo = append(todo[:i:i], todo[i+1:]...)
				break
			}
		}
		if was := before[o.form]; was != nil && !o.form.either { // sent again, because some endorsement of it did not arrive
			o.add(was)
		}
		before[o.form] = o
		in := o.form.right && !o.form.either && !(blind && o.form.state)
		// or the byzantine validator has produced the block, which contains its original chunk
		if asked[o.form]++; (!o.complete() || in && !o.within || o.form.either && o.voted[0] == "silent") && asked[o.form] < 8 {
			todo = append(todo, o.form)
			if !o.form.either || !o.complete() {
				continue
			}
		}
		t.Logf("%-36s at %d: %s, in its block: %v", o.form.name, o.height, strings.Join(o.voted[:], ", "), o.within)
		for i, v := range o.voted {
			holds, want := i == 0 || !blind, "silent"
			if o.form.either {
				want = o.voted[0]
			} else if o.form.right && (holds || !o.form.state) {
				want = "endorsed"
			}
			if v != want && (!o.form.proven || !holds || c.kind(i) == "neard") {
				t.Errorf("%s: %s %d is %s", o.form.name, c.kind(i), i, v)
			}
		}
	}
	for _, f := range todo {
		t.Errorf("%s: never sent", f.name)
	}
	c.until(c.highest()+5, time.Minute)
	c.agree()
}
