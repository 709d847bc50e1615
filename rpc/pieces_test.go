package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestCopyInPiecesEqualsOneCopy(t *testing.T) {
	text := make([]byte, 5*copyStep+7)
	for i := range text {
		text[i] = byte(i * 31)
	}
	for _, n := range []int{0, 1, copyStep - 1, copyStep, copyStep + 1, len(text)} {
		for _, held := range []int{0, 9, copyStep + 3} {
			b := bytes.Repeat([]byte("x"), held)
			if got, want := appendPieces(b, text[:n]), append(b[:held:held], text[:n]...); !bytes.Equal(got, want) {
				t.Errorf("%d bytes after %d differ", n, held)
			}
			if got := growPieces(b, n); !bytes.Equal(got, b) || cap(got)-len(got) < n {
				t.Errorf("room for %d after %d: %d", n, held, cap(got)-len(got))
			}
		}
		if cloneString(text[:n]) != string(text[:n]) || borrowString(text[:n]) != string(text[:n]) {
			t.Errorf("a string of %d bytes differs", n)
		}
	}
}

// TestLongRequestsAreNotCopied: a part of a request that may be as long as a body is neither copied
// nor decoded as a whole, if only its beginning is needed or it is echoed.
func TestLongRequestsAreNotCopied(t *testing.T) {
	const long = 4 << 20
	s := newServer(t, &fakeNode{}, Options{})
	plain, escaped := strings.Repeat("x", long), strings.Repeat(`\u0061`, long/6)
	query := func(member, text string) string {
		return `{"method":"query","id":1,"params":{"request_type":"view_access_key","finality":"final","account_id":"a.near","public_key":"ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr","` + member + `":"` + text + `"}}`
	}
	for what, c := range map[string]struct {
		body string
		most uint64 // bytes, beside the reply
	}{
		"method":          {`{"id":1,"method":"` + plain + `"}`, 0},
		"escaped method":  {`{"id":1,"method":"` + escaped + `"}`, 0},
		"account":         {strings.Replace(query("x", ""), "a.near", plain, 1), 0},
		"escaped account": {strings.Replace(query("x", ""), "a.near", escaped, 1), 0},
		"key":             {strings.Replace(query("x", ""), "ed25519:", plain, 1), 0},
		"hash":            {`{"id":1,"method":"block","params":["` + plain + `"]}`, 0},
		"number":          {`{"id":1,"method":"block","params":[` + strings.Repeat("9", long) + `]}`, 0},
		"float":           {`{"id":1,"method":"block","params":[0.` + strings.Repeat("9", long) + `e5]}`, 0},
		"kind":            {`{"id":1,"method":"gas_price","params":"` + escaped + `"}`, 0},
		"id":              {`{"method":"health","id":"` + plain + `"}`, long},
		"escaped id":      {`{"method":"health","id":"` + strings.Repeat(`\"\u0001`, long/8) + `"}`, long},
		"number as id":    {`{"method":"health","id":0.` + strings.Repeat("9", long) + `}`, 0},
	} {
		t.Run(what, func(t *testing.T) {
			body := []byte(c.body)
			answer := func() {
				_, _ = (&exchange{Server: s, client: noClient, max: 32 << 20}).answer(make([]byte, 0, 4096), body, "")
			}
			if got := allocated(answer); got > c.most+c.most/3+256<<10 {
				t.Errorf("%d bytes are allocated for one of %d, want at most %d", got, len(body), c.most)
			}
		})
	}
}

// TestLongIDsAreEchoed: long ids are echoed as serde_json writes them.
func TestLongIDsAreEchoed(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u001f`, `\u0041`, `\u00e9`, `\u20ac`, `\ud83d\ude00`, "ä", "x", "longer text ", "\x7f", "😀"}
	for n := range 200 {
		var id strings.Builder
		for size := r.IntN(3 * maxID); id.Len() < size || n == 0 && id.Len() < 3*maxID; {
			id.WriteString(pieces[r.IntN(len(pieces))])
		}
		var value string
		if err := json.Unmarshal([]byte(`"`+id.String()+`"`), &value); err != nil {
			t.Fatal(err)
		}
		want := string(appendJSONString(nil, []byte(value)))
		for _, body := range []string{`{"method":"health","id":"` + id.String() + `"}`, `{"method":"none","id":"` + id.String() + `"}`} {
			if _, reply := post(s, "/", body); !strings.HasSuffix(reply, `"id":`+want+"}") {
				t.Fatalf("%.100q is echoed as %.300s", id.String(), reply)
			}
			if _, reply := post(s, "/", "["+body+","+body+"]"); strings.Count(reply, `"id":`+want+"}") != 2 {
				t.Fatalf("in a batch: %.300s", reply)
			}
		}
		if _, reply := post(s, "/health", `{"jsonrpc":"2.0","id":"`+id.String()+`"}`); !strings.HasSuffix(reply, `"id":`+want+"}") {
			t.Fatalf("by path: %.300s", reply)
		}
	}
	if _, reply := post(s, "/", `{"method":"health","id":0.`+strings.Repeat("9", 2*maxID)+`}`); !strings.HasSuffix(reply, `"id":1.0}`) {
		t.Errorf("a number: %.300s", reply)
	}
}

// TestLongNumberIsReadAsNearestFloat: a number of any length is read as the nearest float; strconv
// is wrong for some of more than 800 digits.
func TestLongNumberIsReadAsNearestFloat(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			switch r.IntN(3) {
			case 0:
				b.WriteByte('0')
			default:
				b.WriteByte(byte('0' + r.IntN(10)))
			}
		}
		return b.String()
	}
	texts := []string{"0", "-0", "0." + strings.Repeat("0", 5000), "-0." + strings.Repeat("0", 3000) + "1e3000",
		"1" + strings.Repeat("0", 5000) + "e-5000", "1" + strings.Repeat("0", 5000) + "1e-5001",
		// Between two floats, decided by a digit far to the right.
		"9007199254740993." + strings.Repeat("0", 3000), "9007199254740993." + strings.Repeat("0", 3000) + "1",
		"1e" + strings.Repeat("0", 3000) + "5"}
	for range 300 {
		text := []string{"", "-"}[r.IntN(2)] + strconv.Itoa(1+r.IntN(9)) + digits(r.IntN(3000))
		if r.IntN(2) == 0 {
			text += "." + digits(1+r.IntN(3000))
		}
		if r.IntN(2) == 0 {
			text += fmt.Sprintf("e%d", r.IntN(7000)-3500)
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%.60s is no number", text)
		}
		want, _ := exact.Float64()
		if want == 0 && text[0] == '-' {
			want = math.Copysign(0, -1)
		}
		got, err := strconv.ParseFloat(string(shortNumber([]byte(text))), 64)
		if math.Float64bits(got) != math.Float64bits(want) || (err != nil) != math.IsInf(want, 0) {
			t.Errorf("%.60s... of %d bytes: %v, want %v", text, len(text), got, want)
		}
		if n := len(shortNumber([]byte(text))); n > floatDigits+40 {
			t.Errorf("it has %d bytes", n)
		}
	}
}

// TestNumbersOutOfRangeAreRecognised: numbers far out of range are recognised, however long the
// exponent.
func TestNumbersOutOfRangeAreRecognised(t *testing.T) {
	nines := strings.Repeat("9", 3000)
	for text, want := range map[string]float64{"1E+" + nines: math.Inf(1), "-1e" + nines: math.Inf(-1), "1e-" + nines: 0, "0e" + nines: 0} {
		if got, err := parseFloat([]byte(text)); got != want || (err != nil) != math.IsInf(want, 0) {
			t.Errorf("%.10s...: %v %v, want %v", text, got, err, want)
		}
	}
}

// TestErrorPositionIsCountedAcrossPieces: lines and columns are counted across pieces.
func TestErrorPositionIsCountedAcrossPieces(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{strings.Repeat(" ", 3*yieldBytes) + "x", fmt.Sprintf("line 1 column %d", 3*yieldBytes+1)},
		{strings.Repeat(" \n", 2*yieldBytes) + "  x", fmt.Sprintf("line %d column 3", 2*yieldBytes+1)},
		{"\n" + strings.Repeat(" ", 3*yieldBytes) + "x", fmt.Sprintf("line 2 column %d", 3*yieldBytes+1)},
		{`"` + strings.Repeat("ä", yieldBytes) + "\xff\"", fmt.Sprintf("line 1 column %d", 2*yieldBytes+3)},
	} {
		var d document
		err := d.parse([]byte(c.text))
		if err == nil {
			t.Errorf("%.20q is read", c.text)
		} else if got := err.message([]byte(c.text)); !strings.HasSuffix(got, " at "+c.want) {
			t.Errorf("%.20q: %s, want %s", c.text, got, c.want)
		}
	}
	for n := range 8 { // a piece may end at any byte of a character
		var d document
		if err := d.parse([]byte(`"` + strings.Repeat("x", n) + strings.Repeat("😀", yieldBytes) + `"`)); err != nil {
			t.Errorf("%d: text %s", n, err.text)
		}
	}
}
