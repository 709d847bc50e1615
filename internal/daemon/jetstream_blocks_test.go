package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
)

// TestJetStreamHasEachFinalBlockOnce: the second stream contains nearcore's message of each final
// block once and in order, also over a restart of the node.
func TestJetStreamHasEachFinalBlockOnce(t *testing.T) {
	dir := made(t)
	writer := startRestartingReplica(t, dir, func(hm *home.Home) {
		hm.Config.JetStream.Enabled, hm.Config.JetStream.Listen, hm.Config.JetStream.Blocks = true, "127.0.0.1:0", true
	})
	defer func() { writer.stop(t) }()
	key := writer.host().home.ValidatorKey
	nonce := primitives.Nonce(0)
	fill := func() {
		t.Helper()
		for range 10 {
			nonce++
			if _, reply, err := send(writer, key, nonce, "FINAL"); err != nil || !bytes.Contains(reply, []byte(`"SuccessValue"`)) {
				t.Fatalf("reply %s, error %v", reply, err)
			}
		}
	}
	fill()
	writer.stop(t)
	writer.start(t)
	fill()
	h := writer.host()
	final := h.Engine.Final()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := errors.New("all")
	next := h.Engine.Genesis().Height()
	link := jetstream.Link{URL: h.publishing.Load().server.URL()}
	err := jetstream.ReadBlocks(ctx, link, jetstream.NamesOf(h.home.Genesis.ChainID, h.Engine.Genesis().Hash), 0, func(m jetstream.BlockMessage) error {
		for ; next < m.Height; next++ {
			if _, err := h.store.HashAt(next); err == nil {
				return fmt.Errorf("block %d is missing before %v", next, m.BlockPlace)
			}
		}
		next++
		var want struct{ Result json.RawMessage }
		reply, err := requireReply(writer, "troupe_streamer_message", fmt.Sprintf(`{"block_id":%q}`, m.Hash))
		if err == nil {
			err = json.Unmarshal(reply, &want)
		}
		if err != nil || m.Back || !bytes.Equal(m.Text, want.Result) {
			return fmt.Errorf("block %v: %v\n%.300s\n%.300s", m.BlockPlace, err, m.Text, reply)
		}
		if m.Height >= final.Height {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	if next < 20 {
		t.Errorf("%d heights", next)
	}
}
