package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestIndexerBlockEqualsStreamerMessage: EXPERIMENTAL_indexer_block returns what
// troupe_streamer_message does, which is compared with nearcore's own messages elsewhere, and the
// tracked shards. Its members ascend at every depth, as in every reply of neard's RPC, and it has
// the shape that the OpenAPI document says.
func TestIndexerBlockEqualsStreamerMessage(t *testing.T) {
	w, _ := pagesWorld(t)
	d := newChecker(t, w.client)
	result := func(method, params string) (Reply, json.RawMessage) {
		request := Request{Method: "POST", Path: "/", Body: fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":%q,"params":%s}`, method, params)}
		got, err := w.client(request)
		w.must(err)
		if bad := d.reply(request, got); bad != "" {
			t.Errorf("%s %s: bad %s", method, params, bad)
		}
		var r struct{ Result json.RawMessage }
		w.must(json.Unmarshal([]byte(got.Body), &r))
		return got, r.Result
	}
	decode := func(text []byte) (v map[string]any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		w.must(d.Decode(&v))
		return v
	}
	outcomes, blocks := 0, 0
	for height := w.engine.Chain().Height; height <= w.engine.Head().Height(); height++ {
		_, hash := result("block", fmt.Sprintf(`{"block_id":%d}`, height))
		if hash == nil {
			continue
		}
		var block struct{ Header struct{ Hash string } }
		w.must(json.Unmarshal(hash, &block))
		blocks++
		_, want := result("troupe_streamer_message", fmt.Sprintf(`{"block_id":%d}`, height))
		reply, got := result("EXPERIMENTAL_indexer_block", fmt.Sprintf(`{"block_hash":%q}`, block.Header.Hash))
		if reply.Status != 200 {
			t.Fatalf("block %d: %d %.300s", height, reply.Status, reply.Body)
		}
		ours, theirs := decode(got), decode(want)
		var sorted bytes.Buffer
		e := json.NewEncoder(&sorted)
		e.SetEscapeHTML(false)
		w.must(e.Encode(ours))
		if strings.TrimSpace(sorted.String()) != string(got) {
			t.Errorf("block %d: the members do not ascend: %.300s", height, got)
		}
		if tracked := fmt.Sprint(ours["tracked_shards"]); tracked != "[0]" {
			t.Errorf("block %d: tracked_shards is %s", height, tracked)
		}
		delete(ours, "tracked_shards")
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("block %d differs:\n got %.600s\nwant %.600s", height, got, want)
		}
		outcomes += strings.Count(string(got), `"execution_outcome":`)
	}
	if blocks < 50 || outcomes < 5 {
		t.Errorf("%d blocks with %d outcomes", blocks, outcomes)
	}
	reply, _ := result("EXPERIMENTAL_indexer_block", `{"block_hash":"11111111111111111111111111111112"}`)
	if !strings.Contains(reply.Body, `"cause":{"info":{"error_message":"Block either has never been observed`) || reply.Status != 200 {
		t.Errorf("an unknown block: %d %s", reply.Status, reply.Body)
	}
}
