package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/storage/history"
)

// healthy are the facts of a good machine and a valid home.
func healthy() *Facts {
	yes, skew := true, 5*time.Millisecond
	return &Facts{
		Home: "/home/x", CPUs: 4, Memory: Memory{Total: 16 << 30, Available: 8 << 30},
		Limits: Limits{Files: 1 << 20, Mappings: 65530},
		Clock:  Clock{Now: time.Unix(2000, 0), Synced: &yes, Files: &skew},
		Folder: Folder{Valid: 4, ChainID: "sandbox", DataChain: "sandbox", GenesisTime: time.Unix(1000, 0),
			Cache: Cache{Path: "/home/x/data/contract.cache", Exists: true}},
		Disks: []Disk{{Path: "/home/x/data", Type: "ext4", Total: 100 << 30, Free: 50 << 30, Files: 1 << 20,
			Limited: true, Sync: 2 * time.Millisecond}},
		Ports: []Port{{Key: "rpc.addr", Addr: "0.0.0.0:3030", State: PortFree}},
	}
}

func TestHealthyNodeHasNoFindings(t *testing.T) {
	list := Check(healthy())
	for _, f := range list {
		if f.Status != OK || f.Advice != "" || f.Message == "" {
			t.Errorf("error %+v", f)
		}
	}
	if len(list) < 9 || Worst(list) != OK {
		t.Errorf("%d checks, %s", len(list), Worst(list))
	}
	for _, f := range Check(&Facts{Home: "x"}) { // nothing is known: no panic
		if f.Status == Fail && f.Check != "disk" {
			t.Errorf("unknown facts: %+v", f)
		}
	}
}

// someHistory returns older blocks that are not all imported yet.
func someHistory() History {
	h := History{Path: "/home/x/history", Exists: true, Source: "lake:/l", First: 50, Free: 30 << 30, Reserve: 10 << 30}
	h.Stats = history.Stats{Blocks: 7, Top: history.Block{Height: 110}, Low: history.Block{Height: 100}, Bytes: 3000, Index: 500}
	return h
}

// TestEachBadFactIsFound changes one fact at a time.
func TestEachBadFactIsFound(t *testing.T) {
	no := false
	span := func(d time.Duration) *time.Duration { return &d }
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string // "status check: part of the message"
	}{
		"older blocks": {func(f *Facts) { f.Folder.History = someHistory() }, "ok older blocks: 7 without a gap, heights 100 to 110, 3 KiB; those below, down to 50"},
		"all older blocks": {func(f *Facts) {
			f.Folder.History = someHistory()
			f.Folder.History.First = 100
		}, "ok older blocks: heights 100 to 110, 3 KiB"},
		"older blocks without a feed": {func(f *Facts) {
			f.Folder.History = someHistory()
			f.Folder.History.Source = ""
		}, "ok older blocks: names no feed"},
		"older blocks in use": {func(f *Facts) {
			f.Folder.History = History{Path: "/home/x/history", Exists: true, Locked: true, Source: "lake:/l"}
		}, "ok older blocks: troupe history"},
		"no older blocks yet":  {func(f *Facts) { f.Folder.History = History{Path: "/home/x/history", Source: "lake:/l"} }, "ok older blocks: none yet"},
		"damaged older blocks": {func(f *Facts) { f.Folder.History = History{Path: "/home/x/history", Exists: true, Err: "a bit"} }, "warn older blocks: a bit"},
		"room for older blocks": {func(f *Facts) {
			f.Folder.History = someHistory()
		}, "ok room for older blocks: 30 GiB free, of which the import leaves 10 GiB"},
		"no room for older blocks": {func(f *Facts) {
			f.Folder.History = someHistory()
			f.Folder.History.Free = 9 << 30
		}, "warn room for older blocks: 9216 MiB free"},
		"one core":          {func(f *Facts) { f.CPUs = 1 }, "warn cores: 1 cores"},
		"half a core":       {func(f *Facts) { f.CPUQuota = 0.5 }, "warn cores: 4 cores, of which the cgroup allows 0.5"},
		"large quota":       {func(f *Facts) { f.CPUQuota = 8 }, "ok cores: 4 cores"},
		"old processor":     {func(f *Facts) { f.Features = []string{"SSE4"} }, "fail processor: lacks [SSE4]"},
		"small memory":      {func(f *Facts) { f.Memory.Total = 512 << 20 }, "fail memory: 512 MiB"},
		"2 GiB":             {func(f *Facts) { f.Memory.Total = 2 << 30 }, "warn memory: 2048 MiB"},
		"small cgroup":      {func(f *Facts) { f.Memory.Cgroup = 700 << 20 }, "fail memory: of which the cgroup allows 700 MiB"},
		"memory in use":     {func(f *Facts) { f.Memory.Available = 100 << 20 }, "warn memory: 100 MiB available"},
		"few files":         {func(f *Facts) { f.Limits.Files = 256 }, "fail open files: 256"},
		"4096 files":        {func(f *Facts) { f.Limits.Files = 4096 }, "warn open files: 4096"},
		"ulimit -v":         {func(f *Facts) { f.Limits.AddressSpace = 8 << 30 }, "warn address space: 8192 MiB"},
		"small ulimit -v":   {func(f *Facts) { f.Limits.AddressSpace = 100 << 20 }, "fail address space: 100 MiB"},
		"ulimit -f":         {func(f *Facts) { f.Limits.FileSize = 1 << 30 }, "warn file size: 1024 MiB"},
		"few mappings":      {func(f *Facts) { f.Limits.Mappings = 1000 }, "warn mappings: 1000"},
		"no overcommit":     {func(f *Facts) { f.Limits.Overcommit = 2 }, "warn overcommit: refuses"},
		"clock alone":       {func(f *Facts) { f.Clock.Synced = &no }, "ok clock: not synchronized"},
		"clock in network":  {func(f *Facts) { f.Clock.Synced, f.Folder.Network = &no, true }, "warn clock: no program"},
		"clock of files":    {func(f *Facts) { f.Clock.Files = span(-time.Minute) }, "warn clock of files: -1m0s"},
		"before genesis":    {func(f *Facts) { f.Clock.Now = time.Unix(500, 0) }, "fail clock: before the chain's genesis"},
		"no home":           {func(f *Facts) { f.Folder = Folder{Missing: true} }, "warn home: has no config.json"},
		"home is a file":    {func(f *Facts) { f.Folder = Folder{Err: "it is a file, not a folder"} }, "fail home: /home/x: it is a file"},
		"read-only home":    {func(f *Facts) { f.Folder.ReadOnly = true }, "fail home: may not write"},
		"pipe":              {func(f *Facts) { f.Folder.Irregular = []Irregular{{"/home/x/config.json", "pipe"}} }, "fail home: config.json is a pipe"},
		"invalid file":      {func(f *Facts) { f.Folder.Errors = []string{"genesis.json: bad"} }, "fail files: genesis.json: bad"},
		"warning":           {func(f *Facts) { f.Folder.Warnings = []string{"no such key"} }, "warn files: no such key"},
		"large genesis":     {func(f *Facts) { f.Folder.Skipped = "the files have 900 MiB" }, "warn files: not validated: the files have 900 MiB"},
		"foreign data":      {func(f *Facts) { f.Folder.DataErr = "of format 2" }, "fail data: of format 2"},
		"other chain":       {func(f *Facts) { f.Folder.DataChain = "mainnet" }, "fail data: of chain mainnet, and the genesis of sandbox"},
		"runs":              {func(f *Facts) { f.Folder.Locked, f.Folder.LockedBy = true, Holder{7, "troupe"} }, "ok lock: PID 7 (troupe)"},
		"port of this node": {func(f *Facts) { used(f, 7, 7) }, "ok port: used by the node of this home"},
		"port of another":   {func(f *Facts) { used(f, 8, 7) }, "fail port: rpc.addr: 0.0.0.0:3030 is in use by PID 8"},
		"port of somebody":  {func(f *Facts) { used(f, 0, 0) }, "fail port: in use by a process that this user cannot see"},
		"foreign address":   {func(f *Facts) { f.Ports[0].State = PortNoSuch }, "fail port: no address of this machine"},
		"low port":          {func(f *Facts) { f.Ports[0].State = PortDenied }, "fail port: may not listen"},
		"odd port":          {func(f *Facts) { f.Ports[0].State = PortUnusable }, "fail port: does not allow"},
		"name":              {func(f *Facts) { f.Ports[0].State = "" }, "warn port: has a name"},
		"disk error":        {func(f *Facts) { f.Disks[0].Err = "permission denied" }, "fail disk: permission denied"},
		"read-only disk":    {func(f *Facts) { f.Disks[0].ReadOnly = true }, "fail disk: read-only"},
		"full disk":         {func(f *Facts) { f.Disks[0].Full, f.Disks[0].SyncErr = true, "no space" }, "fail disk: found no room"},
		"little room":       {func(f *Facts) { f.Disks[0].Free = 1 << 20 }, "fail disk: 1024 KiB of 100 GiB"},
		"2 GiB free":        {func(f *Facts) { f.Disks[0].Free = 2 << 30 }, "warn disk: 2048 MiB of 100 GiB"},
		"no inodes":         {func(f *Facts) { f.Disks[0].Files = 3 }, "fail disk: 3 files"},
		"tmpfs":             {func(f *Facts) { f.Disks[0].Type = "tmpfs" }, "warn file system: it is memory"},
		"nfs":               {func(f *Facts) { f.Disks[0].Type = "nfs" }, "warn file system: server"},
		"slow disk":         {func(f *Facts) { f.Disks[0].Sync = 45 * time.Millisecond }, "warn fsync: 45ms"},
		"broken disk":       {func(f *Facts) { f.Disks[0].SyncErr = "input/output error" }, "fail fsync: input/output error"},
		"cache":             {func(f *Facts) { f.Folder.Cache.ReadOnly = true }, "warn contract cache: may not write"},
		"cache is a file":   {func(f *Facts) { f.Folder.Cache.NoFolder = true }, "warn contract cache: no folder"},
		"other node":        {func(f *Facts) { f.Remote = &Remote{URL: "http://a", ChainID: "sandbox", Height: 9} }, "ok other node: height 9"},
		"no other node":     {func(f *Facts) { f.Remote = &Remote{URL: "http://a", Err: "refused"} }, "fail other node: refused"},
		"node of another":   {func(f *Facts) { f.Remote = &Remote{URL: "http://a", ChainID: "x"} }, "fail other node: of chain x, and this home of sandbox"},
		"its clock":         {func(f *Facts) { ahead(f, time.Second) }, "ok clock: differs by 1s"},
		"its clock is late": {func(f *Facts) { ahead(f, -20*time.Second) }, "warn clock: differs by -20s"},
		"its clock is off":  {func(f *Facts) { ahead(f, time.Hour) }, "fail clock: differs by 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c.change(f)
			status, rest, _ := strings.Cut(c.want, " ")
			check, text, _ := strings.Cut(rest, ": ")
			list := Check(f)
			found := false
			for _, x := range list {
				if x.Check == check && strings.Contains(x.Message, text) {
					found = true
					if string(x.Status) != status || (x.Status == OK) != (x.Advice == "") {
						t.Errorf("%+v, want %s", x, c.want)
					}
				} else if x.Status != OK && name != "full disk" {
					t.Errorf("unexpected finding %+v", x)
				}
			}
			if !found || string(Worst(list)) != status {
				t.Errorf("no %q in %+v", c.want, list)
			}
		})
	}
}

func used(f *Facts, port, lock int) {
	f.Ports[0].State, f.Ports[0].Holder = PortUsed, Holder{PID: port}
	f.Folder.Locked, f.Folder.LockedBy = lock > 0, Holder{PID: lock}
}

func ahead(f *Facts, d time.Duration) {
	f.Remote = &Remote{URL: "http://a", ChainID: "sandbox", Ahead: &d, Within: 600 * time.Millisecond}
}

func ExampleCheck() {
	f := healthy()
	f.Disks[0].Free = 1 << 20
	for _, x := range Check(f) {
		if x.Status != OK {
			fmt.Printf("%s %s: %s\n-> %s\n", x.Status, x.Check, x.Message, x.Advice)
		}
	}
	// Output:
	// fail disk: /home/x/data: 1024 KiB of 100 GiB free
	// -> free space: a node on a full disk serves reads and writes nothing
}
