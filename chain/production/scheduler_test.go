package production

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/troupe-chain/troupe/primitives"
)

// TestScripts plays testdata: new mode=... ; waiting yes|no ; wanted yes|no ; accept height=... final=... [busy] [fresh] [pressing] ; mine blocks=... ; tick.
// Every command may have after=, the time since the command before.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *Scheduler
		var now int64
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			num := func(key string) (n uint64) {
				if d.HasArg(key) {
					d.ScanArgs(t, key, &n)
				}
				return n
			}
			span := func(key string) int64 {
				var text string
				if !d.HasArg(key) {
					return 0
				}
				d.ScanArgs(t, key, &text)
				v, err := time.ParseDuration(text)
				if err != nil {
					d.Fatalf(t, "%s: %v", key, err)
				}
				return int64(v)
			}
			now += span("after")
			var ev Event
			switch d.Cmd {
			case "new":
				var name string
				d.ScanArgs(t, "mode", &name)
				mode := slices.IndexFunc([]Mode{Instant, Interval, Manual}, func(m Mode) bool { return m.String() == name })
				if mode < 0 {
					d.Fatalf(t, "no mode %q", name)
				}
				now = 0
				s = New(Rules{Mode: Mode(mode), Interval: span("interval"), Validity: primitives.Height(num("validity")),
					SkipEmpty: d.HasArg("skip-empty"), Linger: span("linger")}, now)
				ev = Tick{}
			case "waiting":
				ev = Waiting{Any: d.HasArg("yes")}
			case "wanted":
				ev = Wanted{Any: d.HasArg("yes")}
			case "accept":
				ev = Accepted{Height: primitives.Height(num("height")), Final: primitives.Height(num("final")), Busy: d.HasArg("busy"),
					Fresh: d.HasArg("fresh"), Pressing: d.HasArg("pressing")}
			case "mine":
				ev = Mine{Blocks: num("blocks")}
			case "tick":
				ev = Tick{}
			case "burst": // blocks without end as long as the pace is now
				n := 0
				for out, _ := s.Step(Tick{}, now); out.Pace == Now && n < 1000; n++ {
					out, _ = s.Step(Accepted{Height: primitives.Height(n + 1), Busy: true}, now)
				}
				out, _ := s.Step(Tick{}, now)
				return fmt.Sprintf("%d blocks, then %s", n, text(out, now))
			}
			out, err := s.Step(ev, now)
			if err != nil {
				return fmt.Sprintf("%s\n%v", text(out, now), err)
			}
			return text(out, now)
		})
	})
}

func text(o Out, now int64) string {
	s := o.Pace.String()
	if o.At != 0 {
		s += fmt.Sprintf(" for %v", time.Duration(o.At-now))
	}
	if o.Interval != 0 {
		s += fmt.Sprintf(" each %v", time.Duration(o.Interval))
	}
	return s
}

// TestWindow drives an instant scheduler as hard as it lets itself be driven: no validity period's worth of blocks takes
// less than MinWindow, whether there is always work, never, or now and then.
func TestWindow(t *testing.T) {
	for _, validity := range []primitives.Height{1, 2, 3, 10, 60, 100, 101, 1000, 86400} {
		for _, work := range []func(i int) bool{
			func(int) bool { return true }, func(int) bool { return false }, func(i int) bool { return i%100 < 60 },
			func(i int) bool { return i > int(validity)/2 },
		} {
			s := New(Rules{Mode: Instant, Interval: 1, Validity: validity}, 0)
			var now int64
			var made []int64
			for i := 0; len(made) < 3*int(validity)+10; i++ {
				out, _ := s.Step(Waiting{Any: work(len(made))}, now)
				switch out.Pace {
				case Hold:
					now = out.At
					continue
				case Free:
					now += out.Interval
				}
				made = append(made, now)
				h := primitives.Height(len(made))
				s.Step(Accepted{Height: h, Final: h}, now)
				if i > 10_000_000 {
					t.Fatalf("validity %d: no progress", validity)
				}
			}
			for i := int(validity); i < len(made); i++ {
				if took := made[i] - made[i-int(validity)]; took < MinWindow {
					t.Fatalf("validity %d: the blocks before block %d took %v, want at least %v", validity, i, time.Duration(took), time.Duration(MinWindow))
				}
			}
		}
	}
}

func TestMineIsBounded(t *testing.T) {
	s := New(Rules{Mode: Manual, Validity: 100}, 0)
	if _, err := s.Step(Mine{Blocks: MaxMine}, 0); err != nil {
		t.Errorf("mine %d: %v", MaxMine, err)
	}
	if _, err := s.Step(Mine{Blocks: 1}, 0); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v, want %v", err, ErrTooMany)
	}
	if s.Left() != MaxMine {
		t.Errorf("left = %d, want %d", s.Left(), MaxMine)
	}
}
