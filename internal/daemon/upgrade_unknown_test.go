package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/prom"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// networkEnv makes this test's binary run the only validator of a network, with the home folder in
// its value. A process of its own supports all protocol versions, while the test supports fewer.
const networkEnv = "TROUPE_TEST_NETWORK_NODE"

// runNetwork runs that validator until stdin ends. It prints its RPC address and its peer address.
func runNetwork(dir string) {
	hm, err := home.Load(dir)
	if err != nil {
		panic(err)
	}
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v %v@%v\n", h.Addr, hm.NodeKey.PublicKey(), h.NetworkAddr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// newerNetwork is a running validator that supports all protocol versions.
type newerNetwork struct {
	t         *testing.T
	url, boot string
	stop      func()
}

// newNewerNetwork starts the validator. votes is the value of upgradeOverride.
func newNewerNetwork(t *testing.T, dir, votes string) *newerNetwork {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), networkEnv+"="+dir, upgradeOverride+"="+votes)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &newerNetwork{t: t, stop: sync.OnceFunc(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})}
	t.Cleanup(n.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &n.url, &n.boot); err != nil {
		t.Fatal(err)
	}
	n.url = "http://" + n.url
	return n
}

// mine makes blocks.
func (n *newerNetwork) mine(blocks int) {
	n.t.Helper()
	r, err := http.Post(n.url, "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"sandbox_mine","params":{"blocks":%d}}`, blocks)))
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var reply struct{ Error any }
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil || reply.Error != nil {
		n.t.Fatal(err, reply.Error)
	}
}

// metricOf returns the sum of a metric at an URL.
func metricOf(t *testing.T, url, name string) float64 {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	m, err := prom.Read(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := m.Sum(name)
	return v
}

// TestNetworkUpgradesBeyondOldNode: a network votes for a version that a node does not support. The
// node warns two epochs ahead and logs an error one epoch ahead. It halts at the boundary with a
// reason, answers reads, and bans no peer. It starts into the same state again, also if the network
// is epochs ahead. A newer program continues with the same data.
func TestNetworkUpgradesBeyondOldNode(t *testing.T) {
	dir := testnode.Home(t, home.InitOptions{ChainID: "sandbox", EpochLength: 10})
	set(t, dir, `"block_production":"manual"`)
	editOf("genesis.json", `"protocol_version": 88`, `"protocol_version": 86`)(t, dir)
	network := newNewerNetwork(t, dir, "sequential")
	follower := testnode.Home(t, home.InitOptions{GenesisFile: filepath.Join(dir, "genesis.json")})
	var log *logBuffer
	open := func(t *testing.T) (*Daemon, string) {
		t.Helper()
		hm, on, l := loaded(t, follower), true, logrus.New()
		hm.Config.Network.Enabled, hm.Config.Network.Addr, hm.Config.Network.BootNodes = &on, "127.0.0.1:0", network.boot
		log = new(logBuffer)
		l.SetOutput(log)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: l})
		if err != nil {
			t.Fatal(err)
		}
		return h, "http://" + h.Addr.String()
	}
	requireMetrics := func(t *testing.T, url string, want map[string]float64) {
		t.Helper()
		for name, value := range want {
			if got := metricOf(t, url, name); got != value {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
	}
	requireNoBan := func(t *testing.T, url string) {
		t.Helper()
		for _, u := range []string{url, network.url} {
			requireMetrics(t, u, map[string]float64{"troupe_network_bans_total": 0})
			eventually(t, "connected", func() bool { return metricOf(t, u, "near_peer_connections_total") == 1 })
		}
	}
	// requireHalt requires that the node has halted at block 21, says why, and answers reads.
	requireHalt := func(t *testing.T, h *Daemon, url string) {
		t.Helper()
		eventually(t, "halted", func() bool { _, is := h.Node.Halted(); return is })
		why, _ := h.Node.Halted()
		if !strings.Contains(why.Reason, "has version 87, this program runs versions up to 86: install a newer release") {
			t.Errorf("halted: %s", why.Reason)
		}
		eventually(t, "logged why", func() bool { return log.contains("install a newer release") })
		var block struct{ Header struct{ Height uint64 } }
		eventually(t, "at the last block", func() bool { // the last blocks reach the disk later
			return rpcOf(t, h, "block", `{"finality":"optimistic"}`, &block) == "" && block.Header.Height == 20
		})
		var account struct{ Amount string }
		if f := rpcOf(t, h, "query", `{"request_type":"view_account","finality":"final","account_id":"near"}`, &account); f != "" || account.Amount == "" {
			t.Errorf("a read of the state: %+v, error %q", account, f)
		}
		if status, text := get(t, h, "/status"); status != http.StatusOK || !strings.Contains(text, `"halted":{`) ||
			!strings.Contains(text, `"upgrade_needed":{"height":21,"version":87}`) {
			t.Errorf("status %d: %s", status, text)
		}
		requireMetrics(t, url, map[string]float64{"troupe_halted": 1, "near_protocol_version_next": 87, "near_protocol_upgrade_block_height": 21,
			"near_node_protocol_version": 86, "near_current_protocol_version": 86})
		requireNoBan(t, url)
	}

	t.Run("older program", func(t *testing.T) {
		parameters.SupportForTest(t, 86)
		h, url := open(t)
		defer func() { stop(t, h) }()
		reach := func(height primitives.Height) {
			t.Helper()
			eventually(t, fmt.Sprint("at ", height), func() bool { return h.Engine.Head().Height() == height })
		}
		network.mine(5)
		reach(5)
		if !log.contains("level=warning") || !log.contains("100% of the stake, most of it for version 87, which is enough (more than 4/5 decide)") ||
			!log.contains("before height 21,") || log.contains("level=error") {
			t.Errorf("after the first votes:\n%s", log.b.String())
		}
		requireMetrics(t, url, map[string]float64{"troupe_newer_version_votes": 100, "near_protocol_version_votes": 0, "near_protocol_version_next": 86,
			"near_protocol_upgrade_block_height": 0})
		network.mine(10)
		reach(15)
		if !log.contains("level=error") || !log.contains("version 87 begins with the next epoch, at about height 21,") {
			t.Errorf("after the decision:\n%s", log.b.String())
		}
		requireMetrics(t, url, map[string]float64{"near_protocol_version_votes": 100, "near_protocol_version_next": 87, "near_protocol_upgrade_block_height": 21})
		if _, text := get(t, h, "/metrics"); !strings.Contains(text, "\nnear_protocol_version_votes{protocol_version=\"87\"} 100\n") {
			t.Error("votes without their version")
		}
		requireNoBan(t, url)
		network.mine(8)
		requireHalt(t, h, url)
	})
	for _, more := range []int{0, 60} {
		t.Run(fmt.Sprintf("older program again, %d blocks later", more), func(t *testing.T) {
			parameters.SupportForTest(t, 86)
			network.mine(more + 1)
			h, url := open(t)
			defer stop(t, h)
			requireHalt(t, h, url)
		})
	}
	t.Run("newer program", func(t *testing.T) {
		h, url := open(t)
		defer stop(t, h)
		eventually(t, "in step", func() bool {
			return float64(h.Engine.Head().Height()) == metricOf(t, network.url, "near_block_height_head")
		})
		requireMetrics(t, url, map[string]float64{"troupe_halted": 0, "near_current_protocol_version": 88, "near_protocol_version_next": 88, "troupe_newer_version_votes": 0})
		if _, text := get(t, h, "/status"); strings.Contains(text, "upgrade_needed") {
			t.Errorf("status: %s", text)
		}
	})
}

// TestArrivingNodeFetchesNoStateOfNewerVersion: a new node gets an epoch sync proof of a supported
// version, and headers that lead to an unsupported one. It fetches no state, because it would soon
// halt, and says that it must be upgraded. It bans no peer, and does the same after a restart. A newer
// program then arrives with the same data.
func TestArrivingNodeFetchesNoStateOfNewerVersion(t *testing.T) {
	dir := shortEpochs(t, 30)
	set(t, dir, `"block_production":"manual"`)
	editOf("genesis.json", `"protocol_version": 88`, `"protocol_version": 87`)(t, dir)
	old := newNewerNetwork(t, dir, "2200-01-01 00:00:00=88")
	old.mine(185)
	old.stop()
	network := newNewerNetwork(t, dir, "sequential")
	// At 238 the flat head is beyond the sync block, and the epoch from 241 on has version 88.
	network.mine(53)
	follower := followerHome(t, dir)
	open := func(t *testing.T) (*Daemon, *logBuffer) {
		t.Helper()
		hm, on, l, log := loaded(t, follower), true, logrus.New(), new(logBuffer)
		hm.Config.Network.Enabled, hm.Config.Network.Addr, hm.Config.Network.BootNodes = &on, "127.0.0.1:0", network.boot
		l.SetOutput(log)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: l, Restarts: true})
		if err != nil {
			t.Fatal(err)
		}
		return h, log
	}
	for _, run := range []string{"older program", "older program again"} {
		t.Run(run, func(t *testing.T) {
			parameters.SupportForTest(t, 87)
			h, log := open(t)
			defer stop(t, h)
			eventually(t, "at the newest header", func() bool {
				at, err := h.Engine.HeaderChain().Head()
				return err == nil && at.Height == 238
			})
			eventually(t, "logged why", func() bool {
				return log.contains("state sync does not begin before this program is upgraded") &&
					log.contains("version 88 begins with the next epoch, at about height 241, and this program runs versions up to 87")
			})
			if log.contains("state sync started") {
				t.Errorf("a state sync has started:\n%s", log.b.String())
			}
			if status, text := get(t, h, "/status"); status != http.StatusOK ||
				!strings.Contains(text, `"upgrade_needed":{"height":241,"version":88}`) || !strings.Contains(text, `"syncing":true`) {
				t.Errorf("status %d: %s", status, text)
			}
			url := "http://" + h.Addr.String()
			for name, want := range map[string]float64{"near_protocol_version_next": 88, "near_protocol_upgrade_block_height": 241,
				"near_node_protocol_version": 87, "troupe_network_bans_total": 0, "near_peer_connections_total": 1} {
				if got := metricOf(t, url, name); got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			if got := metricOf(t, network.url, "troupe_network_bans_total"); got != 0 {
				t.Errorf("the network has banned %v times", got)
			}
		})
	}
	// The network goes on, and its proofs lead to the unsupported version.
	network.mine(60)
	beyond := map[string]string{"older program, epochs later": follower, "older program, epochs later, new node": followerHome(t, dir)}
	for run, home := range beyond {
		t.Run(run, func(t *testing.T) {
			parameters.SupportForTest(t, 87)
			was := follower
			follower = home
			h, log := open(t)
			follower = was
			defer stop(t, h)
			advice := "headers of later epochs cannot be validated: this program must be upgraded"
			if home != follower {
				advice = "epoch sync proof not used: this program must be upgraded first"
			}
			eventually(t, "logged why", func() bool { return log.contains(advice) && log.contains("install a newer release") })
			eventually(t, "status has it", func() bool {
				_, text := get(t, h, "/status")
				return strings.Contains(text, `"upgrade_needed":{"height":241,"version":88}`)
			})
			if got := metricOf(t, "http://"+h.Addr.String(), "near_protocol_version_next"); got != 88 {
				t.Errorf("near_protocol_version_next is %v, want 88", got)
			}
			for _, url := range []string{network.url, "http://" + h.Addr.String()} {
				if got := metricOf(t, url, "troupe_network_bans_total"); got != 0 {
					t.Errorf("%s: %v bans", url, got)
				}
			}
			if got := metricOf(t, network.url, "near_state_sync_requests_served_total"); got != 0 || log.contains("state sync started") {
				t.Errorf("%v state headers and parts were requested", got)
			}
		})
	}
	t.Run("newer program", func(t *testing.T) {
		h, _ := open(t)
		awaitStateSync(t, h)
		h, _ = open(t)
		defer stop(t, h)
		eventually(t, "in step", func() bool { return h.Engine.Head().Height() == 298 })
		if status, text := get(t, h, "/status"); status != http.StatusOK || strings.Contains(text, "upgrade_needed") {
			t.Errorf("status %d: %s", status, text)
		}
	})
}
