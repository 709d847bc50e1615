package flame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// made is: main(10) calls a(5) twice, the second time a calls host(7) and then traps.
func made() *Profile {
	p := New("alice.near: main")
	p.Begin("main", 0)
	p.Begin("a", 4)
	p.End(9)
	p.Begin("a", 12)
	p.Begin("host", 14)
	p.End(21)
	p.Close(24)
	return p
}

func TestSpeedscopeHasEveryCall(t *testing.T) {
	var b bytes.Buffer
	if err := WriteSpeedscope(&b, []*Profile{made(), made()}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Shared   struct{ Frames []struct{ Name string } }
		Profiles []struct {
			EndValue uint64
			Events   []struct {
				Type  string
				Frame int
				At    uint64
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Profiles) != 2 || len(got.Shared.Frames) != 6 {
		t.Fatalf("%d profiles, %d frames", len(got.Profiles), len(got.Shared.Frames))
	}
	text := ""
	for _, e := range got.Profiles[1].Events {
		text += fmt.Sprintf("%s %s %d; ", e.Type, got.Shared.Frames[e.Frame].Name, e.At)
	}
	if want := "O main 0; O a 4; C a 9; O a 12; O host 14; C host 21; C a 24; C main 24; "; text != want || got.Profiles[1].EndValue != 24 {
		t.Errorf("events %s, want %s", text, want)
	}
}

func TestPprofHasCallsAndGasByStack(t *testing.T) {
	var b bytes.Buffer
	if err := WritePprof(&b, []*Profile{made()}); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			names = append(names, l.Line[0].Function.Name)
		}
		lines = append(lines, fmt.Sprintf("%s: %d calls, %d gas", strings.Join(names, " < "), s.Value[0], s.Value[1]))
	}
	want := `main < alice.near: main: 1 calls, 7 gas
a < main < alice.near: main: 2 calls, 10 gas
host < a < main < alice.near: main: 1 calls, 7 gas`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("samples\n%s\nwant\n%s", got, want)
	}
}

// TestWrittenSpeedscopeIsReadBack: a written file is read back, and other files are refused.
func TestWrittenSpeedscopeIsReadBack(t *testing.T) {
	var b, again bytes.Buffer
	if err := WriteSpeedscope(&b, []*Profile{made(), New("empty")}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	profiles, err := ReadSpeedscope(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteSpeedscope(&again, profiles); err != nil || again.String() != text {
		t.Errorf("%s, %v, want %s", again.String(), err, text)
	}
	for _, bad := range []string{"", "[]", `{"profiles":[{"events":[{"type":"O","frame":0}]}]}`} {
		if p, err := ReadSpeedscope(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: got %v", bad, p)
		}
	}
}

// TestCallsBeyondLimitAreCounted: calls beyond the limit are counted, and those around them still
// end.
func TestCallsBeyondLimitAreCounted(t *testing.T) {
	p := New("deep")
	for i := range Max + 10 {
		p.Begin("f", uint64(i))
	}
	for p.Depth() > 0 {
		p.End(uint64(3 * Max))
	}
	if p.Dropped != 0 {
		t.Errorf("%d calls dropped below the limit", p.Dropped)
	}
	for range 20 {
		p.Begin("g", 0)
		p.Begin("h", 0)
		p.End(0)
		p.End(0)
	}
	if p.Depth() != 0 || p.Dropped == 0 {
		t.Errorf("depth %d, %d dropped", p.Depth(), p.Dropped)
	}
}
