package sim

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Scenario describes a cluster and its faults. Times are virtual, in ns. A time with two values is
// drawn from that range. Faults happen only in the first Faults ns.
type Scenario struct {
	Name, Doc     string
	Nodes, Shards int               // number of validators, number of shards
	Parts         int               // minimum number of parts of a chunk; 0: 16, or one for each validator if these are more
	Epoch         primitives.Height // blocks in an epoch
	Fold          primitives.Height // final blocks between two advances of the flat head
	Blocks        primitives.Height // number of final blocks before the load stops
	Settle        primitives.Height // number of final blocks after the load within which all receipts must be applied; 0: 14
	Load          int               // transactions per second of virtual time
	Limit         int64             // maximum duration of the run, which else fails
	Patience      int64             // after the faults, the run fails if no block becomes final for this long

	Latency  [2]int64 // delay of a message
	Disk     int64    // maximum time of a disk write that is not slow
	JobTime  int64    // maximum duration of a job
	Faults   int64    // faults happen only in this time from the start
	Drop     int      // thousandths of messages that are lost
	Double   int      // thousandths of messages that are delivered twice
	Late     int      // thousandths of messages that take up to three seconds more
	SlowDisk int      // thousandths of disk writes that take a hundred times as long
	Cuts     int      // number of partitions of the network into two
	Crashes  int      // number of crashes of one node
	Outages  int      // number of crashes of all nodes at once
	Mute     [2]int64 // for this time from the start, no node answers state requests of catchups; zero: always answered

	Keep  int  // epochs that garbage collection keeps; 0: no garbage collection
	Blind int  // the last Blind validators track no shard
	Idle  bool // the validators that Blind counts produce no blocks either
	Calls bool // half of the transactions call contracts, and some deploy one

	Followers int  // number of nodes that are not validators; they track all shards
	Each      int  // minimum number of chunk producers of a shard; 0: 1
	Shuffle   bool // the shards of chunk producers change in each epoch
	Own       bool // validators track only the shards for which they produce chunks
	Splits    bool // shards are split repeatedly, once the validators have voted for the version with resharding

	Saves     int  // thousandths of writes to the signing journal just before or after which the node crashes
	Byzantine bool // the first validator is byzantine during Faults
	Forms     bool // the byzantine validator's blocks and chunks have forms that nearcore never writes
	// Anchors: the byzantine validator sends chunk messages in the form of another protocol version,
	// or with a wrong anchor, which is the block on which the chunk's producer depends.
	Anchors bool
	Away    [2]int64 // time for which the last node is down; it goes down once, in the first ten seconds; zero: never
	Joiner  bool     // an additional node becomes a validator by staking
	Keys    bool     // validators change their signing keys
	Twin    bool     // the last validator moves to another node with the same key
	Leaver  bool     // the fourth validator is down for epochs, is kicked out, stakes again and returns
	Eager   bool     // blocks are produced as fast as possible (troupe.network.pace eager)

	Version primitives.ProtocolVersion // protocol version of the genesis; 0: the newest, or 85 with Splits
	// Upgrades: validators vote for each version up to the newest, at times drawn from the seed.
	Upgrades  bool
	Universal bool // half of the transactions create or use universal accounts
	Dead      int  // the first Dead validators send no chunks
	Slow      int  // the next Slow validators send only every second chunk
	// NoOptimistic: validators neither send nor use optimistic blocks.
	NoOptimistic bool
}

// Scenarios lists the scenarios. By default a seed chooses one (ScenarioOf).
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
	scenario("byzantine",
		"one of four validators signs two blocks for a height, sends chunk parts only to some nodes, and signs false endorsements",
		func(s *Scenario) {
			s.Byzantine, s.Faults, s.Late = true, 30*second, 5
		}),
	scenario("hurry",
		"as byzantine, with troupe.network.pace eager; the byzantine validator also signs two chunks for the same shard and height; nodes crash while they sign",
		func(s *Scenario) {
			s.Eager, s.Byzantine, s.Saves, s.Crashes, s.Late, s.Epoch, s.Blocks = true, true, 5, 6, 5, 60, 300
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
			s.Own, s.Shuffle, s.Epoch, s.Fold, s.Keep, s.Blocks, s.Faults, s.Mute = true, true, 40, 4, storage.MinKeptEpochs,
				280, 60*second, [2]int64{20 * second, 60 * second}
		}),
	scenario("forms",
		"as byzantine, and its blocks and chunks have forms that nearcore's code never writes (header versions 5 and 7, challenges, unusual heights of chunks), the chain begins at version 86, which accepts more of these forms, and upgrades; one more node follows the chain; nodes crash",
		func(s *Scenario) {
			s.Version = 86
			s.Byzantine, s.Forms, s.Followers, s.Crashes, s.Late, s.Faults, s.Blocks = true, true, 1, 4, 5, 60*second, 70
		}),
	scenario("reformed",
		"as forms, while a shard is split; half of the validators check chunks by state witnesses; the following node is offline for a while",
		func(s *Scenario) {
			s.Byzantine, s.Forms, s.Followers, s.Late, s.Faults = true, true, 1, 5, 60*second
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
	scenario("twin",
		"a validator moves to an empty node with the same key, which waits before it signs; at times both nodes run; nodes crash",
		func(s *Scenario) {
			s.Twin, s.Crashes, s.Late, s.Double, s.Epoch, s.Blocks = true, 4, 5, 20, 120, 50
		}),
}

// scenario returns the default scenario, changed by change. The default has four validators, four
// shards and epochs of twenty blocks.
func scenario(name, doc string, change func(*Scenario)) Scenario {
	s := Scenario{Name: name, Doc: doc, Nodes: 4, Shards: 4, Epoch: 20, Fold: 8, Blocks: 40, Load: 10, Limit: 300 * second,
		Patience: 60 * second,
		Latency:  [2]int64{5 * ms, 60 * ms}, Disk: 4 * ms, JobTime: 10 * ms, Faults: 20 * second}
	change(&s)
	return s
}

// Networks lists scenarios with the numbers of validators, shards and parts of the public networks.
// A seed takes as long as dozens of seeds of other scenarios, so no seed chooses one of them.
var Networks = []Scenario{
	mainnet("mainnet-calm", "a hundred validators that track only the shards for which they produce chunks, nine "+
		"shards, 68 mandates for each shard, 100 parts of a chunk, epochs of 10 blocks; one more node follows the chain; nothing goes wrong",
		func(*Scenario) {}),
	mainnet("mainnet-lossy", "as mainnet-calm; messages are lost, duplicated and delayed", func(s *Scenario) {
		s.Drop, s.Double, s.Late = 60, 60, 30
	}),
	mainnet("mainnet-chaos", "as mainnet-calm; lost, duplicated and late messages, partitions, crashes and slow disks "+
		"together", func(s *Scenario) {
		s.Drop, s.Double, s.Late, s.Cuts, s.Crashes, s.SlowDisk = 40, 40, 20, 3, 15, 20
	}),
	scenario("testnet", "twenty validators, nine shards, 200 parts of a chunk; messages are lost, duplicated and delayed", func(s *Scenario) {
		s.Nodes, s.Shards, s.Parts, s.Drop, s.Double, s.Late = 20, 9, 200, 20, 20, 10
	}),
}

// mainnet returns a scenario with the numbers of mainnet, changed by change. It has some twenty
// final blocks and crosses at least one boundary of epochs. Its faults last 12 s.
func mainnet(name, doc string, change func(*Scenario)) Scenario {
	return scenario(name, doc, func(s *Scenario) {
		s.Nodes, s.Shards, s.Own, s.Followers = 100, 9, true, 1
		s.Epoch, s.Blocks, s.Settle, s.Faults = 10, 8, 8, 12*second
		change(s)
	})
}

// ScenarioOf returns a scenario of Scenarios or Networks by its name. If the name is empty, the
// seed chooses one of Scenarios.
func ScenarioOf(name string, seed uint64) (Scenario, error) {
	if name == "" {
		return Scenarios[seed%uint64(len(Scenarios))], nil
	}
	for _, s := range slices.Concat(Scenarios, Networks) {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("sim: unknown scenario %q; `troupe sim --help` lists them", name)
}

// faulty returns whether faults are injected now.
func (w *World) faulty() bool { return w.now < w.faultsEnd() }

func (w *World) faultsEnd() int64 { return begin + w.s.Faults }

// plan schedules the load and the faults of the scenario at random times.
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
	if s.Twin {
		w.moveValidator()
	}
	if s.Joiner {
		n := w.nodes[s.Nodes]
		w.at(begin+2*second, func() { w.comeBack(n, 0) })
	}
	if s.Byzantine {
		w.at(w.faultsEnd(), func() { w.crash(w.nodes[0]) }) // the validator is honest after the restart
	}
	if s.Away[1] > 0 {
		n, d := w.nodes[len(w.nodes)-1], w.between(s.Away[0], s.Away[1])
		w.at(begin+w.between(second, 10*second), func() { w.crashFor(n, d) })
	}
	w.muted = begin + w.between(s.Mute[0], s.Mute[1])
	if s.Drop+s.Double+s.Late+s.SlowDisk+s.Cuts+s.Crashes+s.Outages+s.Saves == 0 && !s.Byzantine && s.Mute[1] == 0 {
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

// cutNetwork partitions the network into two for half a second to twelve seconds.
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

// crash crashes a node and restarts it after a random time.
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

// crashFor crashes a node and restarts it after d ns.
func (w *World) crashFor(n *node, d int64) {
	if n.core != nil {
		n.crash()
		w.startIn(n, d)
	}
}

func (w *World) startIn(n *node, d int64) {
	w.after(d, func() {
		if n.retired {
			return
		}
		if err := n.start(); err != nil {
			w.check.fail("%s: the restart failed: %v", n.name, err)
		}
	})
}

// Change sets the numbers of nodes, shards and final blocks. A 0 keeps the scenario's number.
// Change returns an error if the scenario cannot run with these numbers.
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
	if s.Nodes < 1 || s.Leaver && s.Nodes < 4 || s.Nodes > len(names) || (s.Joiner || s.Twin) && s.Nodes == len(names) ||
		s.Byzantine && s.Nodes < 4 || s.Shards < 1 || s.Shards > 26 || s.Blind >= s.Nodes {
		return fmt.Errorf("sim: scenario %s cannot run with %d nodes (%d of them without state) and %d shards: it "+
			"needs more nodes than that, at most %d, and 1 to 26 shards", s.Name, s.Nodes, s.Blind, s.Shards, len(names))
	}
	return nil
}
