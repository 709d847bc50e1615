package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
)

// roomEnv makes this binary a process that syncs a state to a disk that is too small at first.
const roomEnv = "TROUPE_TEST_ROOM"

func init() { children[roomEnv] = syncWithoutRoom }

// roomChild describes the arriving node.
type roomChild struct {
	From string // its home folder, without data
	At   string // empty folder over which the disk is mounted
	Boot string // the node of the network
	Free int64  // bytes that are free when the state sync begins; less than the state
}

// roomReport is what the process prints.
type roomReport struct {
	Incoming bool   // the synced state found no room; otherwise the node's own chain did first
	Logged   int    // errors of the network actor meanwhile
	Height   uint64 // height of the head after the state sync
}

func syncWithoutRoom(what string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var c roomChild
	check(json.Unmarshal([]byte(what), &c))
	if err := syscall.Mount("none", c.At, "tmpfs", 0, "size=512m"); err != nil {
		fmt.Print("no mounting here: ", err)
		os.Exit(0)
	}
	dir := filepath.Join(c.At, "home")
	check(os.CopyFS(dir, os.DirFS(c.From)))
	var log logBuffer
	until := func(what string, is func() bool) {
		for limit := time.Now().Add(4 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(limit) {
				check(fmt.Errorf("never %s:\n%s", what, log.text()))
			}
		}
	}
	open := func(boot string) *Daemon {
		hm, err := home.Load(dir)
		check(err)
		on, l := boot != "", logrus.New()
		hm.Config.Network.Enabled, hm.Config.Network.Addr, hm.Config.Network.BootNodes = &on, "127.0.0.1:0", boot
		l.SetOutput(&log)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: l, Restarts: true})
		check(err)
		return h
	}
	end := func(h *Daemon) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(h.Stop(ctx))
	}
	end(open(""))
	end(open("")) // the index is in tables now, so that the next start needs little room
	free := fillDisk(c.At, check)
	free(c.Free)
	var r roomReport
	h := open(c.Boot)
	until("full", func() bool { return bytes.Contains(h.appendMetrics(nil), []byte("\ntroupe_disk_full 1\n")) })
	r.Incoming = h.bootstrap.isFull()
	if r.Incoming {
		until("tried again", func() bool { return strings.Count(log.text(), "state sync started") > 1 })
	}
	r.Logged = strings.Count(log.text(), "level=error msg=\"network: ")
	free(256 << 20)
	select {
	case err := <-h.Failed():
		if !errors.Is(err, ErrStateSynced) {
			check(err)
		}
	case <-time.After(4 * time.Minute):
		check(fmt.Errorf("no state was synced:\n%s", log.text()))
	}
	end(h)
	h = open(c.Boot)
	until("in step", func() bool { r.Height = uint64(h.Engine.Head().Height()); return r.Height >= roomHeight })
	end(h)
	check(json.NewEncoder(os.Stdout).Encode(&r))
	os.Exit(0)
}

// roomHeight is a height at which the flat head is beyond a sync block, with epochs of 30 blocks.
const roomHeight = 238

// TestStateSyncContinuesOnceThereIsRoom: the disk of an arriving node fills up while it stores a state.
// /metrics says so, and the log, which does not repeat it for each attempt. The node arrives once there
// is room.
func TestStateSyncContinuesOnceThereIsRoom(t *testing.T) {
	dir := shortEpochs(t, 30)
	addValues(t, filepath.Join(dir, "genesis.json"), 250, 128<<10)
	network := joined(t, dir, "")
	defer stop(t, network)
	mineBy(t, network, fmt.Sprintf(`{"blocks":%d}`, roomHeight))
	c := roomChild{From: followerHome(t, dir), At: t.TempDir(), Free: 20 << 20,
		Boot: fmt.Sprintf("%v@%s", network.home.NodeKey.PublicKey(), network.NetworkAddr())}
	said, _, err := childInNamespace(t, roomEnv, c)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(said, "no mounting here") {
		t.Skip(said)
	}
	var r roomReport
	if err := json.Unmarshal([]byte(said), &r); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	t.Logf("%+v", r)
	if r.Logged > 1 || r.Incoming && r.Logged == 0 {
		t.Errorf("%d errors logged in two attempts, want 1", r.Logged)
	}
	if r.Height < roomHeight {
		t.Errorf("height %d, want at least %d", r.Height, roomHeight)
	}
}

// addValues adds random values of the account near to a genesis.
func addValues(t *testing.T, path string, number, size int) {
	t.Helper()
	in, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var genesis map[string]json.RawMessage
	var records []json.RawMessage
	if err := errors.Join(json.Unmarshal(in, &genesis), json.Unmarshal(genesis["records"], &records)); err != nil {
		t.Fatal(err)
	}
	rng := rand.NewChaCha8([32]byte{1})
	for i := range number {
		value := make([]byte, size)
		_, _ = rng.Read(value)
		records = append(records, fmt.Appendf(nil, `{"Data":{"account_id":"near","data_key":%q,"value":%q}}`,
			base64.StdEncoding.EncodeToString([]byte{byte(i)}), base64.StdEncoding.EncodeToString(value)))
	}
	if genesis["records"], err = json.Marshal(records); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(genesis)
	if err == nil {
		err = os.WriteFile(path, out, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
