package sim

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Scenario says what a world is like. Its numbers are the most there may be: a seed draws below
// them.
type Scenario struct {
	Name, Doc     string
	Nodes, Shards int
	Epoch, Fold   primitives.Height // blocks of an epoch; final ones that a fold waits for
	Blocks        primitives.Height // that are to be final before the load ends
	Load          int               // transactions a second of virtual time
	Limit         int64             // of virtual time, ns
	Patience      int64             // ns without a new final block, when nothing is wrong any more

	Latency  [2]int64 // of messages, ns
	Disk     int64    // of a write, ns
	JobTime  int64    // of a chunk, ns
	Faults   int64    // how long there are any, ns
	Drop     int      // of messages, thousandths
	Double   int      //
	Late     int      // that take up to three seconds more
	SlowDisk int      // writes that take a hundred times as long, thousandths
	Cuts     int      // of the network in two
	Crashes  int      // of nodes
	Outages  int      // of all nodes at once
	// how long no node answers state requests for catchup, ns; none: there is always an answer
	Mute  [2]int64
	Keep  int  // epochs that garbage collection leaves; 0: nothing is collected
	Blind int  // validators, the last ones, that hold no state
	Idle  bool // and make no blocks either
	Calls bool // half of the load calls contracts, which are deployed now and then

	Followers int  // nodes beside the validators, which hold all
	Each      int  // validators that make the chunks of a shard, at least; 0: 1
	Shuffle   bool // chunk producers are drawn anew for each epoch
	Own       bool // validators hold the shards alone of which they make chunks
	Splits    bool // shards are split again and again, once the validators have voted for the version that does so
	// of writes of what was signed that end in a crash, thousandths: before or behind the write,
	// and before anything is sent
	Saves   int
	Liar    bool     // the first validator lies while there are faults
	Forms   bool     // and writes blocks and chunks otherwise than nearcore's own code does
	Anchors bool     // its lies are messages about chunks with wrong ancestors, or in the form of another version
	Away    [2]int64 // how long the last node is away, from some time in the first ten seconds on, ns
	Joiner  bool     // one more node becomes a validator by its stake
	Keys    bool     // validators stake with another key, and sign with it once it counts
	Leaver  bool     // the fourth validator is away for epochs, is kicked out, stakes again and returns
	Eager   bool     // blocks come as fast as they can; each validator's own parts of a chunk make it

	Version    primitives.ProtocolVersion // of the genesis; 0: the newest, with Splits 85
	Upgrades   bool                       // validators vote for one version after the other, at times that the seed chooses, up to the newest
	Universal  bool                       // half of the load makes and uses universal accounts
	Dead, Slow int                        // validators, the first ones and those after them, of which no chunk, or every second one, gets out
}

// Scenarios are what seeds are run with.
var Scenarios = []Scenario{
	scenario("calm", "nothing goes wrong", func(*Scenario) {}),
	scenario("lossy", "messages are lost, duplicated and delayed", func(s *Scenario) {
		s.Drop, s.Double, s.Late = 60, 60, 30
	}),
	scenario("cuts",
		"the network is partitioned in two for some seconds, several times",
		func(s *Scenario) { s.Cuts, s.Late = 4, 10 }),
	scenario("crashes", "nodes crash, lose what is not on disk, and start again", func(s *Scenario) { s.Crashes, s.SlowDisk = 10, 30 }),
	scenario("outages",
		"writes of blocks stall on all nodes, and then all nodes crash at once",
		func(s *Scenario) {
			s.Disk, s.SlowDisk, s.Crashes, s.Outages = 10*ms, 20, 4, 4
		}),
	scenario("chaos",
		"lost, duplicated and late messages, partitions, crashes and slow disks together",
		func(s *Scenario) {
			s.Drop, s.Double, s.Late, s.Cuts, s.Crashes, s.SlowDisk = 40, 40, 20, 3, 6, 20
		}),
	scenario("blind",
		"two of six validators have no state and check chunks by state witnesses; messages are lost",
		func(s *Scenario) {
			s.Nodes, s.Blind, s.Drop, s.Double = 6, 2, 20, 20
		}),
	scenario("judges",
		"two of six validators are only chunk validators; each shard has two chunk producers; half of the transactions call contracts",
		func(s *Scenario) {
			s.Nodes, s.Blind, s.Idle, s.Shards, s.Each, s.Calls = 6, 2, true, 2, 2, true
		}),
	scenario("leaver",
		"a validator is offline for epochs, is kicked out, stakes again and returns",
		func(s *Scenario) {
			s.Leaver, s.Faults, s.Limit, s.Epoch, s.Blocks = true, 60*second, 600*second, 20, 80
		}),
	scenario("saves",
		"nodes crash just before or just after a signature is recorded in the signing journal",
		func(s *Scenario) {
			s.Saves, s.Late = 40, 10
		}),
	scenario("liar",
		"one of four validators signs two blocks for a height, sends chunk parts only to some nodes, and signs false endorsements",
		func(s *Scenario) {
			s.Liar, s.Faults, s.Late = true, 30*second, 5
		}),
	scenario("hurry",
		"as liar, with troupe.network.pace eager; the liar also signs two chunks for the same shard and height; nodes crash while they sign",
		func(s *Scenario) {
			s.Eager, s.Liar, s.Saves, s.Crashes, s.Late, s.Epoch, s.Blocks = true, true, 5, 6, 5, 60, 300
			s.Load, s.Latency, s.Disk, s.JobTime = 20, [2]int64{ms / 2, 8 * ms}, 2*ms, 2*ms
		}),
	scenario("joiner", "a node becomes a validator by staking", func(s *Scenario) {
		s.Joiner, s.Double, s.Late, s.Blocks = true, 20, 5, 60
	}),
	scenario("keys", "validators change their keys while they run; nodes crash", func(s *Scenario) {
		s.Keys, s.Crashes, s.Late, s.Faults, s.Epoch, s.Blocks = true, 6, 5, 40*second, 12, 90
	}),
	scenario("splits",
		"shards are split repeatedly; half of the validators check chunks by state witnesses",
		func(s *Scenario) {
			s.Splits, s.Shards, s.Epoch, s.Blocks, s.Double, s.Late = true, 2, 8, 70, 30, 5
		}),
	scenario("own",
		"validators track only the shards for which they produce chunks; one more node follows the chain",
		func(s *Scenario) {
			s.Own, s.Followers, s.Drop, s.Double = true, 1, 20, 20
		}),
	scenario("moves",
		"as own, and in each epoch other validators produce a shard's chunks, so they download and drop its state",
		func(s *Scenario) {
			s.Own, s.Shuffle, s.Each, s.Followers, s.Epoch, s.Fold, s.Blocks = true, true, 2, 1, 40, 4, 130
		}),
	scenario("handover",
		"as moves, with one chunk producer for each shard, the only node that has its state; for about an epoch no node serves states",
		func(s *Scenario) {
			s.Own, s.Shuffle, s.Epoch, s.Fold, s.Keep, s.Blocks, s.Faults, s.Mute = true, true, 40, 4, storage.MinKeptEpochs, 280, 60*second, [2]int64{20 * second, 60 * second}
		}),
	scenario("forms",
		"as liar, and its blocks and chunks have forms that nearcore's code never writes (header versions 5 and 7, challenges, unusual heights of chunks), also while version 86, which takes more of them, is voted up; one more node follows the chain; nodes crash",
		func(s *Scenario) {
			s.Version = 86
			s.Liar, s.Forms, s.Followers, s.Crashes, s.Late, s.Faults, s.Blocks = true, true, 1, 4, 5, 60*second, 70
		}),
	scenario("reformed",
		"as forms, while a shard is split; half of the validators check chunks by state witnesses; the following node is offline for a while",
		func(s *Scenario) {
			s.Liar, s.Forms, s.Followers, s.Late, s.Faults = true, true, 1, 5, 60*second
			s.Splits, s.Shards, s.Epoch, s.Blocks, s.Away = true, 2, 8, 90, [2]int64{15 * second, 45 * second}
		}),
	scenario("kickout", "dead and slow chunk producers are skipped for the rest of an epoch (from protocol version 87 on); nodes crash",
		func(s *Scenario) {
			s.Dead, s.Slow, s.Nodes, s.Shards, s.Each = 1, 1, 6, 2, 3
			s.Epoch, s.Blocks, s.Crashes, s.Late, s.Faults, s.Limit = 60, 140, 4, 5, 60*second, 900*second
		}),
	scenario("upgrade",
		"from protocol version 85 validators vote for the newest, version by version; messages are lost, nodes crash",
		func(s *Scenario) {
			s.Version, s.Upgrades, s.Universal, s.Blocks, s.Faults = 85, true, true, 170, 60*second
			s.Drop, s.Double, s.Late, s.Crashes, s.SlowDisk = 10, 20, 10, 6, 20
			s.Limit = 600 * second
		}),
	scenario("universal",
		"half of the transactions make and use universal accounts; two of six validators check chunks by state witnesses; messages are lost, nodes crash",
		func(s *Scenario) {
			s.Universal, s.Nodes, s.Blind, s.Drop, s.Double, s.Late, s.Crashes, s.Blocks = true, 6, 2, 20, 20, 10, 4, 60
		}),
}

// scenario is four validators, four shards and epochs of twenty blocks, but for what is changed.
func scenario(name, doc string, change func(*Scenario)) Scenario {
	s := Scenario{Name: name, Doc: doc, Nodes: 4, Shards: 4, Epoch: 20, Fold: 8, Blocks: 40, Load: 10, Limit: 300 * second, Patience: 60 * second,
		Latency: [2]int64{5 * ms, 60 * ms}, Disk: 4 * ms, JobTime: 10 * ms, Faults: 20 * second}
	change(&s)
	return s
}

// ScenarioOf finds a scenario by name; "" is one that the seed chooses.
func ScenarioOf(name string, seed uint64) (Scenario, error) {
	if name == "" {
		return Scenarios[seed%uint64(len(Scenarios))], nil
	}
	for _, s := range Scenarios {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("sim: unknown scenario %q; `troupe sim --help` lists them", name)
}

// faulty returns whether faults are injected now.
func (w *World) faulty() bool { return w.now < w.faultsEnd() }

func (w *World) faultsEnd() int64 { return begin + w.s.Faults }

// plan draws when what goes wrong.
func (w *World) plan() {
	s := &w.s
	if s.Load > 0 {
		w.after(second, w.load.next)
	}
	if s.Leaver {
		w.leave(w.nodes[3])
		return
	}
	if s.Keys {
		w.changeKeys()
	}
	if s.Joiner {
		n := w.nodes[s.Nodes]
		w.at(begin+2*second, func() { w.comeBack(n, 0) })
	}
	if s.Liar {
		w.at(w.faultsEnd(), func() { w.crash(w.nodes[0]) }) // it starts again as an honest one
	}
	if s.Away[1] > 0 {
		n, d := w.nodes[len(w.nodes)-1], w.between(s.Away[0], s.Away[1])
		w.at(begin+w.between(second, 10*second), func() { w.crashFor(n, d) })
	}
	w.muted = begin + w.between(s.Mute[0], s.Mute[1])
	if s.Drop+s.Double+s.Late+s.SlowDisk+s.Cuts+s.Crashes+s.Outages+s.Saves == 0 && !s.Liar && s.Mute[1] == 0 {
		s.Faults = 0
	}
	for range s.Cuts {
		w.at(begin+w.between(0, s.Faults), w.cutNetwork)
	}
	for range s.Outages {
		t := begin + w.between(0, s.Faults)
		w.at(t-3*second, func() { w.stalled = t + ms })
		w.at(t, func() {
			for _, n := range w.nodes {
				w.crash(n)
			}
		})
	}
	for range s.Crashes {
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		w.at(begin+w.between(0, s.Faults), func() { w.crash(n) })
	}
}

// cutNetwork cuts the network in two, for a while.
func (w *World) cutNetwork() {
	if w.net.cut {
		return
	}
	w.net.cut = true
	for i := range w.net.side {
		w.net.side[i] = w.chance(500)
	}
	d := w.between(second/2, 12*second)
	w.say("", "the network is cut for %.1f s: %v", float64(d)/float64(second), w.net.side)
	w.after(d, func() {
		w.net.cut = false
		w.say("", "the network is whole again")
	})
}

// crash crashes a node, and starts it again.
func (w *World) crash(n *node) {
	if n.core == nil {
		return
	}
	n.crash()
	d := w.between(50*ms, 8*second)
	if w.chance(300) {
		d = w.between(ms, 50*ms)
	}
	w.startIn(n, d)
}

// crashFor crashes a node for so long.
func (w *World) crashFor(n *node, d int64) {
	if n.core != nil {
		n.crash()
		w.startIn(n, d)
	}
}

func (w *World) startIn(n *node, d int64) {
	w.after(d, func() {
		if err := n.start(); err != nil {
			w.check.fail("%s does not start again: %v", n.name, err)
		}
	})
}

// Change sets what is not 0.
func (s *Scenario) Change(nodes, shards int, blocks uint64) error {
	if nodes != 0 {
		s.Nodes = nodes
	}
	if shards != 0 {
		s.Shards = shards
	}
	if blocks != 0 {
		s.Blocks = primitives.Height(blocks)
	}
	if s.Nodes < 1 || s.Leaver && s.Nodes < 4 || s.Nodes > len(names) || s.Joiner && s.Nodes == len(names) || s.Liar && s.Nodes < 4 || s.Shards < 1 || s.Shards > 26 || s.Blind >= s.Nodes {
		return fmt.Errorf("sim: scenario %s cannot run with %d nodes (%d of them without state) and %d shards: it needs more nodes than that, at most %d, and 1 to 26 shards", s.Name, s.Nodes, s.Blind, s.Shards, len(names))
	}
	return nil
}
