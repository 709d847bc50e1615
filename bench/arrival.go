package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
)

// ArrivalOptions configure RunArrival.
type ArrivalOptions struct {
	State string `json:"state"` // folder made by RunState, whose node serves the state
	// Kills is how often the arriving node is ended by SIGKILL: at moments spread over the download,
	// and at least once when the download is complete. Seed selects the moments.
	Kills int    `json:"kills"`
	Seed  uint64 `json:"seed"`
	// BlockTime is the time between two blocks while the node arrives.
	BlockTime time.Duration                   `json:"block_time_ns"`
	Looks     int                             `json:"looks"`  // number of accounts that are compared at the end
	Binary    string                          `json:"binary"` // path of the troupe binary
	Commit    string                          `json:"-"`
	Dir       string                          `json:"-"` // folder for the arriving node's home; empty: the system's temporary folder
	Progress  func(part float64, what string) `json:"-"`
}

// ArrivalReport is the result of RunArrival.
type ArrivalReport struct {
	Command string         `json:"command"`
	Time    string         `json:"time"`
	Commit  string         `json:"commit"`
	Machine Machine        `json:"machine"`
	Options ArrivalOptions `json:"options"`
	Limits  Throughput     `json:"limits"`
	Result  ArrivalResult  `json:"result"`
}

// ArrivalResult has the figures of an arrival. Sizes are in bytes.
type ArrivalResult struct {
	Accounts       int     `json:"accounts"`
	GiverDisk      uint64  `json:"giver_disk_bytes"` // size of the giver's data folder before the arrival
	HistorySeconds float64 `json:"history_seconds"`  // time until the giver had enough epochs
	// Snapshots is how many sync points the giver made state snapshots of, while it made its history
	// and during the arrival. SnapshotSeconds is the time for all of them.
	Snapshots       int     `json:"snapshots"`
	SnapshotSeconds float64 `json:"snapshot_seconds"`
	// Seconds is the time from the first start of the arriving node until it follows the chain.
	// SyncSeconds ends when all parts are downloaded, StartSeconds is the rest.
	Seconds      float64   `json:"seconds"`
	SyncSeconds  float64   `json:"sync_seconds"`
	StartSeconds float64   `json:"start_seconds"`
	KilledAt     []float64 `json:"killed_at"` // share of the state parts that were present at each kill
	Parts        int       `json:"parts"`
	Received     uint64    `json:"received_bytes"`      // frames from peers, in all runs together
	Disk         uint64    `json:"disk_bytes"`          // size of the arrived data folder
	Giver        Use       `json:"giver"`               // use of the giver during the arrival
	Arriving     Use       `json:"arriving"`            // use of the arriving node, all runs together
	OfLoopback   float64   `json:"of_loopback"`         // rate of Received during SyncSeconds by the measured limit
	OfDiskWrite  float64   `json:"of_disk_write"`       // rate of Arriving.Written by the measured limit
	OfDiskRead   float64   `json:"of_disk_read"`        // rate of Giver.Read by the measured limit
	OfHost       float64   `json:"of_host_limit"`       // parts per second by the limit of requests to one host
	GiverP50     float64   `json:"giver_p50_seconds"`   // view_account of a cold account at the giver
	ArrivedP50   float64   `json:"arrived_p50_seconds"` // the same at the arrived node
	ArrivedP99   float64   `json:"arrived_p99_seconds"`
}

// Rules of an arrival.
const (
	// arrivalEpochs is the number of epochs that the chain has before a node arrives. A younger chain
	// has no epoch sync proof, or is within the horizon.
	arrivalEpochs = 5
	// hostParts is the number of parts per second that a node requests of one host
	// (docs/design/state-sync.md).
	hostParts = 24.0 / 30
	// stalled is the time without any progress after which a run fails.
	stalled = 10 * time.Minute
	// fastBlocks is the block time of the giver while it makes its history.
	fastBlocks = time.Millisecond
)

// arrival is the state of one RunArrival.
type arrival struct {
	o     *ArrivalOptions
	r     *ArrivalReport
	at    storedState
	epoch primitives.Height // length of an epoch
	addr  string            // address of the giver for peers
	giver *child
}

// RunArrival measures how a node that has only the genesis arrives by epoch sync and state sync, over
// loopback from one other node. Both are processes of their own. The giver's chain is that of
// RunState. It continues during the run. After the run the chain has signed in a network, so the
// other benchmarks cannot run it any more.
func RunArrival(ctx context.Context, o ArrivalOptions) (_ *ArrivalReport, err error) {
	if o.Kills < 0 || o.Kills > 1000 || o.Looks < 1 || o.BlockTime < time.Millisecond {
		return nil, fmt.Errorf("bench: %d kills, %d accounts to compare, a block each %v: must be 0 to 1000, at least 1, and at least 1 ms",
			o.Kills, o.Looks, o.BlockTime)
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	a := &arrival{o: &o, r: &ArrivalReport{Command: "bench arrival", Time: time.Now().UTC().Format(time.RFC3339),
		Commit: o.Commit, Machine: ThisMachine(), Options: o}}
	if a.at, err = readState(o.State); err != nil {
		return nil, err
	}
	if a.addr, err = freePort(loopback); err != nil {
		return nil, err
	}
	o.Progress(0, "machine limits")
	if a.r.Limits, err = measureThroughput(cmp.Or(o.Dir, os.TempDir())); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "troupe-bench-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Progress(0, "genesis of the arriving node")
	if err := a.makeHome(dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.giver.stop()) }()
	if err := a.history(ctx); err != nil {
		return nil, err
	}
	return a.r, a.arrive(ctx, dir)
}

// makeHome makes the home of the arriving node. Its data folder has the genesis block without the
// state. It tracks the shard as the giver's validator does, because a node that tracks a shard by
// itself begins with the state of the genesis.
func (a *arrival) makeHome(dir string) error {
	c, _, err := config.Parse("", []byte("{}"))
	if err != nil {
		return err
	}
	to := home.PathsOf(dir, c)
	genesis, err := os.ReadFile(home.PathsOf(a.o.State, c).Genesis)
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"tracked_shards_config": map[string]any{"ShadowValidator": workload.Validator}})
	if err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(to.Genesis, genesis, 0o644), os.WriteFile(to.Config, text, 0o644), writeNodeKey(to.NodeKey))
	if err != nil {
		return err
	}
	h, err := home.Load(dir)
	if err != nil {
		return err
	}
	a.epoch = primitives.Height(h.Genesis.EpochLength)
	h.Config.TrackedShards = config.TrackedShards{None: true}
	o := a.at.options()
	values, err := newStateValues(&o)
	if err != nil {
		return err
	}
	o.Progress = func(part float64, _ string) { a.o.Progress(part, "genesis of the arriving node") }
	n, log := &fullNode{}, logrus.New()
	log.SetOutput(io.Discard) // Start returns errors. A warning would say that the node makes no blocks.
	if err := n.run(h, 1<<30, "", daemon.Options{Log: log, Trust: true, Grow: growth(&o, values)}); err != nil {
		return err
	}
	if n.base != a.at.Genesis {
		err = fmt.Errorf("bench: the genesis block is %v, that of %s is %v: bench state of another version made it",
			n.base, a.o.State, a.at.Genesis)
	}
	return errors.Join(err, n.stop())
}

// startGiver starts the giver with a time between blocks, and waits until it serves.
func (a *arrival) startGiver(ctx context.Context, every time.Duration) (err error) {
	text := fmt.Sprintf(`{"consensus": {"min_block_production_delay": %s, "max_block_production_delay": %s}, "troupe": {"block_production": "interval"}}`,
		delay(every), delay(every+time.Second))
	if err := os.WriteFile(filepath.Join(a.o.State, home.ConfigFile), []byte(text), 0o644); err != nil {
		return err
	}
	a.giver, err = startChild(ctx, a.o.Binary, a.o.State, "--network-addr", a.addr)
	return err
}

// delay returns a duration as config.json has it.
func delay(d time.Duration) string {
	return fmt.Sprintf(`{"secs": %d, "nanos": %d}`, d/time.Second, d%time.Second)
}

// history makes the giver's chain long enough, so that its head is early in an epoch. Then it restarts
// the giver with the time between blocks of the arrival.
func (a *arrival) history(ctx context.Context) error {
	begun := time.Now()
	if err := a.startGiver(ctx, fastBlocks); err != nil {
		return err
	}
	target := primitives.Height(0)
	err := a.giver.await(ctx, func(height primitives.Height) bool {
		if target == 0 {
			k := max(height/a.epoch, arrivalEpochs)
			if height > k*a.epoch+a.epoch/3 {
				k++
			}
			target = k*a.epoch + a.epoch/10
		}
		a.o.Progress(float64(height)/float64(target), fmt.Sprintf("history, block %d", height))
		return height >= target
	})
	if err := errors.Join(err, a.countSnapshots(), a.giver.stop()); err != nil {
		return err
	}
	a.r.Result.HistorySeconds = time.Since(begun).Seconds()
	return a.startGiver(ctx, a.o.BlockTime)
}

// countSnapshots adds the state snapshots that the running giver has made since its start.
func (a *arrival) countSnapshots() error {
	m, err := a.giver.metrics()
	a.r.Result.Snapshots += int(m["near_make_state_snapshot_elapsed_sec_count"])
	a.r.Result.SnapshotSeconds += m["near_make_state_snapshot_elapsed_sec_sum"]
	return err
}

// moments returns the shares of the parts at which the node is killed before its download is
// complete.
func (o *ArrivalOptions) moments() (out []float64) {
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	for i := range o.Kills - 1 {
		out = append(out, (float64(i)+rng.Float64())/float64(o.Kills-1))
	}
	return out
}

// arrive runs the arriving node until it follows the chain.
func (a *arrival) arrive(ctx context.Context, dir string) (err error) {
	x := &a.r.Result
	x.Accounts, x.GiverDisk = a.at.Accounts, diskBytes(filepath.Join(a.o.State, "data"))
	key, err := home.ReadKeyFile(filepath.Join(a.o.State, "node_key.json"))
	if err != nil {
		return err
	}
	before := a.giver.use()
	moments, begun := a.o.moments(), time.Now()
	var synced time.Time
	for {
		own, err := freePort(loopback)
		if err != nil {
			return err
		}
		n, err := startChild(ctx, a.o.Binary, dir, "--network-addr", own, "--boot-nodes", fmt.Sprintf("%v@%s", key.PublicKey(), a.addr))
		if err != nil {
			return err
		}
		killed, err := a.watch(ctx, n, &moments, &synced)
		x.Received += n.received
		if killed {
			x.Arriving.add(n.use())
			continue
		}
		if err == nil {
			x.Seconds = time.Since(begun).Seconds()
			x.Arriving.add(n.use())
			x.Giver = a.giver.use().since(before)
			err = errors.Join(a.countSnapshots(), a.compare(ctx, n))
		}
		if err := errors.Join(err, n.stop()); err != nil {
			return err
		}
		break
	}
	x.SyncSeconds = synced.Sub(begun).Seconds()
	x.StartSeconds = x.Seconds - x.SyncSeconds
	x.Disk = diskBytes(filepath.Join(dir, "data"))
	l := &a.r.Limits
	x.OfLoopback = float64(x.Received) / x.SyncSeconds / l.Loopback
	x.OfDiskWrite = float64(x.Arriving.Written) / x.Seconds / l.DiskWrite
	x.OfDiskRead = float64(x.Giver.Read) / x.SyncSeconds / l.DiskRead
	x.OfHost = float64(x.Parts) / x.SyncSeconds / hostParts
	return nil
}

// watch follows one run of the arriving node. It returns once the node follows the chain, or once it
// was killed at the first of the moments.
func (a *arrival) watch(ctx context.Context, n *child, moments *[]float64, synced *time.Time) (killed bool, err error) {
	x := &a.r.Result
	kill := func(share float64) (bool, error) {
		x.KilledAt = append(x.KilledAt, share)
		return true, n.kill()
	}
	last, moved := "", time.Now()
	for {
		m, err := n.metrics()
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if ended := n.failed(); ended != nil {
			return false, ended
		}
		if synced.IsZero() && n.log.isComplete() {
			*synced = time.Now()
		}
		if !synced.IsZero() && len(x.KilledAt) < a.o.Kills {
			return kill(1)
		}
		if err == nil { // while the node restarts, it does not answer
			parts, have := m["troupe_sync_state_parts"], m["troupe_sync_state_parts_here"]
			share := have / max(parts, 1)
			x.Parts = max(x.Parts, int(parts))
			if parts > 0 && len(*moments) > 0 && share >= (*moments)[0] {
				*moments = (*moments)[1:]
				return kill(share)
			}
			height := m["near_block_height_head"]
			a.o.Progress(share, fmt.Sprintf("state sync, %.0f of %.0f parts, killed %d times", have, parts, len(x.KilledAt)))
			if now := fmt.Sprint(parts, have, height, n.received); now != last {
				last, moved = now, time.Now()
			}
			if goal, err := a.giver.metrics(); err == nil && !synced.IsZero() && height > 0 && height+3 >= goal["near_block_height_head"] {
				return false, nil
			}
		}
		if time.Since(moved) > stalled {
			return false, fmt.Errorf("bench: the arriving node made no progress for %v; its log is\n%s", stalled, n.log.tail())
		}
		time.Sleep(pollEvery)
	}
}

// syncComplete is in the log line after which a node restarts with a synced state.
const syncComplete = "state sync is complete"

// compare reads accounts from both nodes, one after the other. All must be equal.
func (a *arrival) compare(ctx context.Context, n *child) error {
	x := &a.r.Result
	rng := rand.New(rand.NewPCG(a.o.Seed, 2))
	clients := [...]*load.Client{a.giver.client, n.client}
	for _, c := range clients {
		c.Close() // the other end may be closing an idle connection
	}
	var took [2][]float64
	for range a.o.Looks {
		id := workload.Account(rng.IntN(a.at.Accounts))
		var got [2]string
		for i, c := range clients {
			var account struct {
				Amount  string
				Storage uint64 `json:"storage_usage"`
			}
			begun := time.Now()
			if err := c.Call(ctx, "query", map[string]string{"request_type": "view_account", "finality": "final",
				"account_id": string(id)}, &account); err != nil {
				return fmt.Errorf("view_account %s: %w", id, err)
			}
			took[i] = append(took[i], time.Since(begun).Seconds())
			got[i] = fmt.Sprint(account)
		}
		if got[0] != got[1] {
			return fmt.Errorf("bench: account %s is %s at the giver and %s at the arrived node", id, got[0], got[1])
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	at := func(list []float64, q float64) float64 { return list[min(int(q*float64(len(list))), len(list)-1)] }
	x.GiverP50, x.ArrivedP50, x.ArrivedP99 = at(took[0], .5), at(took[1], .5), at(took[1], .99)
	return nil
}

// WriteJSON writes the report as JSON.
func (r *ArrivalReport) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteText writes the report as text.
func (r *ArrivalReport) WriteText(w io.Writer) error {
	x, l := &r.Result, &r.Limits
	gb := func(n uint64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }
	use := func(u *Use) string {
		return fmt.Sprintf("%.0f s of processor, at most %s resident, read %s from the disk, wrote %s",
			u.CPUSeconds, gb(u.Peak), gb(u.Read), gb(u.Written))
	}
	return writeLines(w, [][2]string{
		{"machine", fmt.Sprintf("%s, %d cores, %s, %s, load %s", r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Go, r.Machine.Load)},
		{"commit", r.Commit},
		{"limits", fmt.Sprintf("disk writes %.0f MB/s, reads %.0f MB/s; loopback %.0f MB/s", l.DiskWrite/1e6, l.DiskRead/1e6, l.Loopback/1e6)},
		{"giver", fmt.Sprintf("%d accounts, %s on disk; history made in %.0f s; %d snapshots of the state in %.1f s",
			x.Accounts, gb(x.GiverDisk), x.HistorySeconds, x.Snapshots, x.SnapshotSeconds)}, {},
		{"arrival", fmt.Sprintf("%.0f s with %d kills: %.0f s until all %d parts were there, %.0f s more until it followed",
			x.Seconds, len(x.KilledAt), x.SyncSeconds, x.Parts, x.StartSeconds)},
		{"", fmt.Sprintf("received %s, %.1f MB/s; on disk %s; killed at the shares %.2f",
			gb(x.Received), float64(x.Received)/x.SyncSeconds/1e6, gb(x.Disk), x.KilledAt)},
		{"shares", fmt.Sprintf("%.0f %% of the requests that one host allows, %.1f %% of loopback, "+
			"%.0f %% of the disk's writes, %.0f %% of its reads", x.OfHost*100, x.OfLoopback*100, x.OfDiskWrite*100, x.OfDiskRead*100)},
		{"arriving", use(&x.Arriving)},
		{"giver", use(&x.Giver)},
		{"reads", fmt.Sprintf("view_account of %d cold accounts, equal at both: p50 %.2f ms at the giver, "+
			"%.2f ms at the arrived node, p99 %.2f ms", r.Options.Looks, x.GiverP50*1e3, x.ArrivedP50*1e3, x.ArrivedP99*1e3)},
	})
}
