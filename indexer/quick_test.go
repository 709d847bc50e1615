package indexer

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/stream"
)

// TestQuickFrameEqualsParsedJSON: a frame in Troupe's format is read without parsing its message,
// with the same result as a JSON parser's. Other formats and kinds are left to the parser.
func TestQuickFrameEqualsParsedJSON(t *testing.T) {
	at := stream.Cursor{Height: 17, Hash: primitives.HashBytes([]byte{1})}
	cursor, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"jsonrpc":"2.0","method":"subscription","params":{"subscription":"1","cursor":`
	message := `{"block":{"author":"a","x":",\"message\":"},"shards":[]}`
	m := quick([]byte(head + string(cursor) + `,"message":` + message + "}}"))
	if m == nil || m.Cursor != at {
		t.Fatalf("got %+v", m)
	}
	if text, err := m.JSON(); err != nil || string(text) != message {
		t.Errorf("text %s, error %v", text, err)
	}
	for _, frame := range []string{
		head + string(cursor) + `,"reverted":[{"block_hash":"1","height":3}]}}`, head + string(cursor) + `,"closed":{"reason":"DONE"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"cursor":` + string(cursor) + `,"message":{"shards":[]}}}`, head + `{"height":1},"message":{"shards":[]}}}`,
		head + string(cursor) + `,"message":{"shards":[]}`, "", "{", head,
	} {
		if m := quick([]byte(frame)); m != nil {
			t.Errorf("%s is %v", frame, m.Cursor)
		}
	}
	for i := range len(head) + len(cursor) + len(message) { // cut anywhere
		if m := quick(fmt.Appendf(nil, "%s%s,\"message\":%s}}", head, cursor, message)[:i]); m != nil {
			t.Errorf("the first %d bytes are %v", i, m.Cursor)
		}
	}
}
