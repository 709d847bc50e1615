package primitives

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// value is a line of testdata/values.jsonl.gz: what the types of near-primitives 0.38.0 make of
// random bytes (internal/testkit/oracle/answers, command values).
type value struct {
	Type        string          `json:"type"`
	Borsh       string          `json:"borsh"` // hex
	JSON        json.RawMessage `json:"json"`  // a value, or a string that holds its text
	Error       *string         `json:"error"`
	Raw         string          `json:"raw"` // hex
	Status      uint64          `json:"status"`
	ID          string          `json:"id"`
	Kind        *AccountKind    `json:"kind"`
	Lenient     *string         `json:"lenient"` // hex
	Counts      []uint64        `json:"counts"`
	Send        []uint64        `json:"send"`
	SendLenient []uint64        `json:"send_lenient"`
	PostQuantum bool            `json:"post_quantum"`
	Hash        Hash            `json:"hash"`
	Key         PublicKey       `json:"key"`
	Valid       bool            `json:"valid"`
}

func (v *value) bytes(t *testing.T, text string) []byte {
	t.Helper()
	out, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c StateInitCounts) equal(want []uint64) bool {
	return len(want) == 3 && c == (StateInitCounts{Bytes: want[0], Entries: want[1], Keys: want[2]})
}

// text is the JSON text in a string; empty: null.
func (v *value) text(t *testing.T) (text string) {
	t.Helper()
	if err := json.Unmarshal(v.JSON, &text); err != nil && string(v.JSON) != "null" {
		t.Fatal(err)
	}
	return text
}

func TestValuesAreThoseOfNearPrimitives(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for v := range testutil.Vectors[value](t, "testdata/values.jsonl.gz") {
		seen[v.Type]++
		check := map[string]func(*testing.T, *value){"state_init": checkStateInit, "account": checkRoundTrip[Account], "action": checkAction,
			"error": checkError, "header": checkHeader, "endorsement": checkEndorsement, "id": checkID}[v.Type]
		if check != nil { // the others are for other packages
			check(t, v)
		}
	}
	for kind, least := range map[string]int{"state_init": 1200, "account": 400, "action": 600, "error": 1000, "header": 80, "endorsement": 60, "id": 600} {
		if seen[kind] < least {
			t.Errorf("%d values of type %s, want at least %d", seen[kind], kind, least)
		}
	}
}

func checkStateInit(t *testing.T, v *value) {
	raw := RawStateInit(v.bytes(t, v.Raw))
	if id := raw.DerivedAccount(); string(id) != v.ID {
		t.Errorf("%s: id %s, want %s", v.Raw, id, v.ID)
	}
	_, err := raw.Decode()
	if got := StateInitExitStatus(err); got != v.Status {
		t.Errorf("%s: status %d, want %d", v.Raw, got, v.Status)
	}
	if c := raw.Counts(); !c.equal(v.Counts) {
		t.Errorf("%s: counts %+v, want %v", v.Raw, c, v.Counts)
	}
	if c := raw.SendCounts(true); !c.equal(v.Send) {
		t.Errorf("%s: strict counts of sending %+v, want %v", v.Raw, c, v.Send)
	}
	if c := raw.SendCounts(false); !c.equal(v.SendLenient) {
		t.Errorf("%s: lenient counts of sending %+v, want %v", v.Raw, c, v.SendLenient)
	}
	if got := raw.HasPostQuantumKey(); got != v.PostQuantum {
		t.Errorf("%s: post-quantum is %v", v.Raw, got)
	}
	s, err := raw.DecodeLenient()
	if (err == nil) != (v.Lenient != nil) {
		t.Errorf("%s: %v, want %v", v.Raw, err, v.Lenient)
		return
	}
	if err != nil {
		return
	}
	if got := hex.EncodeToString(s.Encode()); got != *v.Lenient {
		t.Errorf("%s is %s, want %s", v.Raw, got, *v.Lenient)
	}
	text := string(s.AppendJSON(nil))
	if want := v.text(t); text != want {
		t.Errorf("%s is %s, want %s", v.Raw, text, want)
	}
	var back UniversalStateInitV1
	if err := json.Unmarshal([]byte(text), &back); err != nil || !bytes.Equal(back.Encode(), s.Encode()) {
		t.Errorf("%s check back as %+v, %v", text, back, err)
	}
}

// checkRoundTrip checks that the bytes decode and encode to themselves.
func checkRoundTrip[T any, P interface {
	*T
	codec
}](t *testing.T, v *value) {
	in, x := v.bytes(t, v.Borsh), P(new(T))
	if err := borsh.Unmarshal(in, x); err != nil || !bytes.Equal(x.AppendBorsh(nil), in) {
		t.Errorf("%T: %x became %x, %v", x, in, x.AppendBorsh(nil), err)
	}
}

func checkAction(t *testing.T, v *value) {
	r := borsh.NewReader(v.bytes(t, v.Borsh))
	a := ReadAction(r)
	if err := r.Close(); err != nil || hex.EncodeToString(AppendAction(nil, a)) != v.Borsh {
		t.Errorf("%s became %+v, %v", v.Borsh, a, err)
	}
}

func checkError(t *testing.T, v *value) {
	var fromBytes, fromJSON TxExecutionError
	if err := borsh.Unmarshal(v.bytes(t, v.Borsh), &fromBytes); err != nil {
		t.Errorf("%s (%s): %v", v.Borsh, v.JSON, err)
		return
	}
	if err := json.Unmarshal(v.JSON, &fromJSON); err != nil {
		t.Errorf("%s: %v", v.JSON, err)
		return
	}
	for _, e := range []*TxExecutionError{&fromBytes, &fromJSON} {
		if got := e.AppendJSON(nil); !bytes.Equal(got, v.JSON) {
			t.Errorf("%s, want %s", got, v.JSON)
		}
		if got := hex.EncodeToString(e.AppendBorsh(nil)); got != v.Borsh {
			t.Errorf("%s: %s, want %s", v.JSON, got, v.Borsh)
		}
	}
}

func checkHeader(t *testing.T, v *value) {
	checkRoundTrip[BlockHeader](t, v)
	var h BlockHeader
	if err := borsh.Unmarshal(v.bytes(t, v.Borsh), &h); err != nil || h.Hash() != v.Hash {
		t.Errorf("%s: hash %v, want %v, %v", v.Borsh, h.Hash(), v.Hash, err)
	}
}

func checkEndorsement(t *testing.T, v *value) {
	checkRoundTrip[ChunkEndorsement](t, v)
	var e ChunkEndorsement
	if err := borsh.Unmarshal(v.bytes(t, v.Borsh), &e); err != nil {
		t.Errorf("%s: %v", v.Borsh, err)
		return
	}
	valid := e.Signature.Verify(ChunkEndorsementBytes(e.ChunkHash), v.Key) && e.MetadataSignature.Verify(e.Metadata.AppendBorsh(nil), v.Key)
	if valid != v.Valid {
		t.Errorf("%s: valid is %v, want %v", v.Borsh, valid, v.Valid)
	}
}

func checkID(t *testing.T, v *value) {
	id, err := ParseAccountID(v.ID)
	if (err == nil) != (v.Kind != nil) {
		t.Errorf("%q: %v, want %v", v.ID, err, v.Error)
		return
	}
	if err != nil {
		if got := err.Error(); got != *v.Error {
			t.Errorf("%q: %s, want %s", v.ID, got, *v.Error)
		}
		return
	}
	if got := id.Kind(true); got != *v.Kind {
		t.Errorf("%s: kind %d, want %d", id, got, *v.Kind)
	}
	if got, want := id.Kind(false), *v.Kind%UniversalAccount; got != want {
		t.Errorf("%s: kind %d without universal accounts, want %d", id, got, want)
	}
}
