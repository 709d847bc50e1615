package production

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/troupe-chain/troupe/primitives"
)

// TestSchedulerFollowsScripts runs the scripts in testdata. Their commands: new mode=... ; waiting
// yes|no ; wanted yes|no ; vote ; accept height=... final=... [busy] [fresh] [pressing] ; mine
// blocks=... ; tick. Each command may have after=, the time since the previous command.
func TestSchedulerFollowsScripts(t *testing.T) {
	t.Parallel()
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
			case "vote":
				ev = Voted{}
			case "accept":
				ev = Accepted{Height: primitives.Height(num("height")), Final: primitives.Height(num("final")), Busy: d.HasArg("busy"),
					Fresh: d.HasArg("fresh"), Pressing: d.HasArg("pressing")}
			case "mine":
				ev = Mine{Blocks: num("blocks")}
			case "tick":
				ev = Tick{}
			case "burst": // as many blocks as the pace allows without time passing
				n := 0
				for out, _ := s.Step(Tick{}, now); out.Pace == Now && n < 1000; n++ {
					_, _ = s.Step(Voted{}, now)
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

// TestValidityPeriodLastsAsLongAsPromised makes an instant scheduler produce blocks as fast as it
// allows. A validity period lasts at least as long as the package comment states, whether there is
// always work, never, or now and then.
func TestValidityPeriodLastsAsLongAsPromised(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Millisecond, 120 * time.Millisecond, 600 * time.Millisecond, time.Minute} {
		for _, validity := range []primitives.Height{1, 2, 3, 10, 60, 100, 101, 1000, 86400} {
			for _, work := range []func(i int) bool{
				func(int) bool { return true }, func(int) bool { return false }, func(i int) bool { return i%100 < 60 },
				func(i int) bool { return i > int(validity)/2 },
			} {
				c := chain{sched: New(Rules{Mode: Instant, Interval: int64(interval), Validity: validity}, 0), interval: int64(interval)}
				made := c.run(t, 2*int(validity)+10, func() { c.step(t, Waiting{Any: work(len(c.made))}) })
				burst := max(min(Burst, float64(validity)/2), 1)
				rest := max(float64(validity)-burst, 1)
				least := int64((float64(validity) - burst) / (1/float64(interval) + rest/MinWindow) * 0.999)
				for i := int(validity); i < len(made); i++ {
					if took := made[i] - made[i-int(validity)]; took < least {
						t.Fatalf("interval %v, validity %d: the blocks before block %d took %v, want at least %v", interval, validity, i, time.Duration(took), time.Duration(least))
					}
				}
			}
		}
	}
}

// chain produces blocks as the scheduler decides, for a single validator: an approval produces a
// block, which is the head after the time cost.
type chain struct {
	sched    *Scheduler
	interval int64
	now      int64
	voted    int64
	made     []int64 // for each block, the time at which it was the head
	cost     func(n int) int64
	accept   func(n int) Accepted // returns the event for the n-th block
	next     func() int64         // returns the time of the next event from outside; nil: none
}

func (c *chain) step(t *testing.T, ev Event) Out {
	out, err := c.sched.Step(ev, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run produces n blocks and returns their times. It calls look whenever time has passed; look gives
// the scheduler the events of that time.
func (c *chain) run(t *testing.T, n int, look func()) []int64 {
	for turns := 0; len(c.made) < n; turns++ {
		if turns > 20*n+1_000_000 {
			t.Fatalf("%d blocks of %d, then no progress at %v", len(c.made), n, time.Duration(c.now))
		}
		look()
		out, vote := c.step(t, Tick{}), int64(-1)
		switch out.Pace {
		case Now:
			vote = c.now
		case Free:
			if vote = max(c.voted+out.Interval, c.now); out.Interval != c.interval {
				t.Fatalf("free with an interval of %d, want %d", out.Interval, c.interval)
			}
		}
		then := vote
		for _, at := range []int64{out.At, c.nextEvent()} {
			if at > c.now && (then < 0 || at < then) {
				then = at
			}
		}
		if then < 0 {
			t.Fatalf("%v, and nothing will change that", out.Pace)
		}
		if c.now = then; then != vote {
			continue
		}
		c.voted = vote
		c.step(t, Voted{})
		if c.cost != nil {
			c.now += c.cost(len(c.made))
		}
		look()
		c.made = append(c.made, c.now)
		ev := Accepted{Height: primitives.Height(len(c.made)), Final: primitives.Height(len(c.made))}
		if c.accept != nil {
			ev = c.accept(len(c.made))
		}
		c.step(t, ev)
	}
	return c.made
}

func (c *chain) nextEvent() int64 {
	if c.next == nil {
		return 0
	}
	return c.next()
}

// load is what clients send to a chain. Transaction i is sent at time at[i] and causes receipts in
// the next depth[i] blocks, of which the last are refunds. wants[i] sets whether from then on a
// client waits for final blocks.
type load struct {
	at    []int64
	depth []int
	wants []bool
}

// of makes the load the input of a chain, and returns the function look for chain.run.
func (l *load) of(t *testing.T, c *chain) (look func()) {
	in, wanted := 0, false // number of transactions in blocks; whether a client waits
	last := 0              // the last block with work
	pressed := 0           // the last block that leaves receipts other than refunds
	look = func() {
		n := in
		for n < len(l.at) && l.at[n] <= c.now {
			n++
		}
		if n > 0 {
			wanted = l.wants[n-1]
		}
		c.step(t, Waiting{Any: n > in})
		c.step(t, Wanted{Any: wanted})
	}
	c.next = func() int64 {
		for _, at := range l.at[in:] {
			if at > c.now {
				return at
			}
		}
		return 0
	}
	c.accept = func(n int) Accepted {
		ev := Accepted{Height: primitives.Height(n), Final: primitives.Height(max(n-2, 0))}
		for in < len(l.at) && l.at[in] <= c.voted {
			ev.Fresh = true
			last, pressed = max(last, n+l.depth[in]), max(pressed, n+l.depth[in]-1)
			in++
		}
		ev.Busy, ev.Pressing = n <= last, n < pressed
		look()
		return ev
	}
	return look
}

// TestInstantIsNeverSlowerThanInterval: for any interval, validity period, linger, load and block
// time, the n-th block of instant mode is the head no later than that of interval mode.
func TestInstantIsNeverSlowerThanInterval(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
	ahead := 0
	for round := range 400 {
		rules := Rules{Interval: ms(pick(1, 10, 40, 120, 600, 2000)), Validity: primitives.Height(pick(1, 2, 6, 10, 20, 100, 120, 1000, 86400)),
			Linger: ms(pick(0, 200, 200, 5000))}
		const blocks = 400
		gap := pick(0, 1, rules.Interval/3+1, rules.Interval, 3*rules.Interval, 40*rules.Interval)
		var l load
		for at, n := int64(0), r.IntN(2*blocks); n > 0; n-- {
			if r.IntN(20) == 0 {
				at += 50 * gap
			}
			at += r.Int64N(gap + 1)
			l.at, l.depth, l.wants = append(l.at, at), append(l.depth, r.IntN(4)), append(l.wants, r.IntN(2) == 0)
		}
		slow := pick(0, 0, ms(1), rules.Interval/2, 2*rules.Interval)
		costs := make([]int64, blocks)
		for i := range costs {
			costs[i] = r.Int64N(slow + 1)
		}
		var made [2][]int64
		for i, mode := range []Mode{Instant, Interval} {
			rules.Mode = mode
			c := chain{sched: New(rules, 0), interval: rules.Interval, cost: func(n int) int64 { return costs[n] }}
			made[i] = c.run(t, blocks, l.of(t, &c))
		}
		for i := range blocks {
			if made[0][i] > made[1][i] {
				t.Fatalf("round %d, %+v, %d transactions: block %d of instant mode is there at %v, of interval mode at %v", round, rules, len(l.at), i+1,
					time.Duration(made[0][i]), time.Duration(made[1][i]))
			}
			if made[0][i] < made[1][i]-rules.Interval {
				ahead++
			}
		}
	}
	if ahead < 1000 {
		t.Errorf("%d blocks are ahead of interval mode: instant mode is not instant", ahead)
	}
}

func TestMineAboveMaxMineIsRefused(t *testing.T) {
	t.Parallel()
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
