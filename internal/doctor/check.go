package doctor

import (
	"fmt"
	"time"
)

// Status is the status of a finding.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // a node can run, but not as well as it should
	Fail Status = "fail" // a node does not run, or fails soon
)

// Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do
}

// Thresholds of the checks.
const (
	leastCPUs   = 2
	leastMemory = 1 << 30
	goodMemory  = 4 << 30
	leastFiles  = 1024
	goodFiles   = 65_536
	// minimum address space in bytes, because each contract's memory is reserved with guard pages
	leastSpace   = 512 << 20
	goodSpace    = 64 << 30
	goodMappings = 65_530 // Linux's default of vm.max_map_count
	leastFree    = 256 << 20
	goodFree     = 5 << 30
	leastNames   = 1000
	slowSync     = 20 * time.Millisecond
	fileSkew     = 2 * time.Second
	clockSkew    = 5 * time.Second
	// lower than the 120 s by which a block's timestamp may be ahead before a node refuses the
	// block
	clockSkewLimit = 100 * time.Second
)

// report collects findings.
type report []Finding

func (r *report) add(check string, s Status, advice, format string, args ...any) {
	if s == OK {
		advice = ""
	}
	*r = append(*r, Finding{check, s, fmt.Sprintf(format, args...), advice})
}

// Check evaluates facts. The findings are in the order of the documentation.
func Check(f *Facts) []Finding {
	var r report
	r.machine(f)
	r.limits(f)
	r.clock(f)
	r.folder(f)
	r.ports(f)
	for i := range f.Disks {
		r.disk(&f.Disks[i])
	}
	r.cache(&f.Folder.Cache)
	r.history(&f.Folder.History)
	r.remote(f)
	return r
}

// Worst returns the worst status.
func Worst(list []Finding) Status {
	worst := OK
	for _, f := range list {
		if f.Status == Fail || f.Status == Warn && worst == OK {
			worst = f.Status
		}
	}
	return worst
}

func below(value, least, good uint64) Status {
	switch {
	case value < least:
		return Fail
	case value < good:
		return Warn
	}
	return OK
}

func (r *report) machine(f *Facts) {
	cores := float64(f.CPUs)
	text := fmt.Sprintf("%d cores", f.CPUs)
	if f.CPUQuota > 0 && f.CPUQuota < cores {
		cores = f.CPUQuota
		text += fmt.Sprintf(", of which the cgroup allows %.1f", f.CPUQuota)
	}
	s := OK
	if cores < leastCPUs {
		s = Warn
	}
	r.add("cores", s, "give the node at least two cores: blocks are executed beside the RPC and the network", "%s", text)
	if len(f.Features) > 0 {
		r.add("processor", Fail,
			"use a processor of the x86-64-v2 level: compiled contracts need it; in a virtual machine, choose the host's model",
			"the processor lacks %v", f.Features)
	} else {
		r.add("processor", OK, "", "it has what compiled contracts need")
	}
	m := f.Memory
	has, text := m.Total, size(m.Total)+" of memory"
	if m.Cgroup > 0 && (m.Total == 0 || m.Cgroup < m.Total) {
		has, text = m.Cgroup, text+", of which the cgroup allows "+size(m.Cgroup)
	}
	if m.Available > 0 {
		text += ", " + size(m.Available) + " available"
	}
	if has == 0 {
		r.add("memory", OK, "", "unknown on this system")
		return
	}
	s = below(has, leastMemory, goodMemory)
	if s != Fail && m.Available > 0 && m.Available < leastMemory {
		s = Warn
	}
	r.add("memory", s, "a small sandbox needs 1 GiB, a node with 4 shards 4 GiB; "+
		"a quarter is used for state (troupe.state_memory)", "%s", text)
}

func (r *report) limits(f *Facts) {
	l := &f.Limits
	if l.Files > 0 {
		r.add("open files", below(l.Files, leastFiles, goodFiles),
			"raise the limit: `ulimit -n 65536`, or LimitNOFILE=65536 in a systemd unit; each connection and table of the store takes one",
			"a process may have %d", l.Files)
	}
	if l.AddressSpace > 0 {
		r.add("address space", below(l.AddressSpace, leastSpace, goodSpace),
			"remove the limit (`ulimit -v unlimited`): contracts reserve addresses that they do not use", "limited to %s", size(l.AddressSpace))
	}
	if l.FileSize > 0 {
		r.add("file size", Warn, "remove the limit (`ulimit -f unlimited`): a longer file ends the node", "limited to %s", size(l.FileSize))
	}
	if l.Mappings > 0 && l.Mappings < goodMappings {
		r.add("mappings", Warn, "sysctl vm.max_map_count=65530 or more: each compiled contract takes some", "vm.max_map_count is %d", l.Mappings)
	}
	if l.Overcommit == 2 {
		r.add("overcommit", Warn, "sysctl vm.overcommit_memory=0: contracts reserve memory that they do not use",
			"vm.overcommit_memory is 2, which refuses large reservations")
	}
}

func (r *report) clock(f *Facts) {
	c := &f.Clock
	switch synced := c.Synced; {
	case synced == nil:
	case *synced:
		r.add("clock", OK, "", "synchronized")
	case f.Folder.Network:
		r.add("clock", Warn,
			"run chrony or systemd-timesyncd: nodes refuse blocks from more than 120 s ahead of their clock", "no program synchronizes it")
	default:
		r.add("clock", OK, "", "not synchronized, which a chain on one machine does not need")
	}
	if d := c.Files; d != nil && d.Abs() > fileSkew {
		r.add("clock of files", Warn, "set the clocks of the machine and of the file server",
			"new files are dated %v from the clock", d.Round(time.Millisecond))
	}
	if g := f.Folder.GenesisTime; !g.IsZero() && c.Now.Before(g) {
		r.add("clock", Fail, "set the clock, or wait", "it says %s, before the chain's genesis (%s)",
			c.Now.UTC().Format(time.RFC3339), g.UTC().Format(time.RFC3339))
	}
}

func (r *report) folder(f *Facts) {
	d := &f.Folder
	if d.Err != "" {
		r.add("home", Fail, "correct the permissions, or name another folder with --home", "%s: %s", f.Home, d.Err)
		return
	}
	if d.Missing {
		r.add("home", Warn, "create a chain with `troupe init`, or name another folder with --home", "%s has no config.json", f.Home)
		return
	}
	if d.ReadOnly {
		r.add("home", Fail, "change the owner or the permissions: the node writes to data/ in it", "%s: this user may not write there", f.Home)
	}
	for _, x := range d.Irregular {
		r.add("home", Fail, "replace it by a file", "%s is a %s, not a file", x.Path, x.Kind)
	}
	for _, e := range d.Errors {
		r.add("files", Fail, "correct the file and run `troupe validate-config`", "%s", e)
	}
	for _, w := range d.Warnings {
		r.add("files", Warn, "a node runs in spite of it; see `troupe validate-config`", "%s", w)
	}
	switch {
	case d.Skipped != "":
		r.add("files", Warn, "run `troupe validate-config`", "not validated: %s", d.Skipped)
	case len(d.Errors)+len(d.Irregular) == 0:
		kind := "a sandbox"
		switch {
		case d.Network && d.Validator:
			kind = "a validator or sandbox with peers"
		case d.Network:
			kind = "a node that follows its network"
		}
		r.add("files", OK, "", "%d files in %s are valid: chain %s, %s", d.Valid, f.Home, d.ChainID, kind)
	}
	switch {
	case d.DataErr != "":
		r.add("data", Fail, "start with an empty data folder, or with the program that wrote this one", "%s", d.DataErr)
	case d.DataChain != "" && d.ChainID != "" && d.DataChain != d.ChainID:
		r.add("data", Fail, "restore the genesis of the data folder, or start with an empty one",
			"the data folder is of chain %s, and the genesis of %s", d.DataChain, d.ChainID)
	case d.DataChain != "":
		r.add("data", OK, "", "the data folder is of chain %s", d.DataChain)
	}
	if d.Locked {
		text := "a node runs on this home"
		if h := d.LockedBy.String(); h != "" {
			text += ": " + h
		}
		r.add("lock", OK, "", "%s", text)
	}
}

func (r *report) ports(f *Facts) {
	for _, p := range f.Ports {
		switch p.State {
		case PortFree:
			r.add("port", OK, "", "%s: %s is free", p.Key, p.Addr)
		case "":
			r.add("port", Warn, "check that the name is of this machine", "%s: %s has a name, and was not tried", p.Key, p.Addr)
		case PortUsed:
			who, mine := p.Holder.String(), f.Folder.Locked && p.Holder.PID != 0 && p.Holder.PID == f.Folder.LockedBy.PID
			if who == "" {
				who = "a process that this user cannot see"
			}
			switch {
			case mine:
				r.add("port", OK, "", "%s: %s is used by the node of this home", p.Key, p.Addr)
			default:
				r.add("port", Fail, "stop it, or change "+p.Key, "%s: %s is in use by %s", p.Key, p.Addr, who)
			}
		case PortNoSuch:
			r.add("port", Fail, "change "+p.Key+" to an address of this machine", "%s: %s is no address of this machine", p.Key, p.Addr)
		case PortDenied:
			r.add("port", Fail, "choose a port from 1024 on, or give the program the capability CAP_NET_BIND_SERVICE",
				"%s: this user may not listen at %s", p.Key, p.Addr)
		default:
			r.add("port", Fail, "change "+p.Key, "%s: the system does not allow to listen at %s", p.Key, p.Addr)
		}
	}
}

// risky maps unsuitable file systems to the consequence for a node.
var risky = map[string]string{
	"tmpfs":   "it is memory: a restart of the machine loses the chain",
	"ramfs":   "it is memory: a restart of the machine loses the chain",
	"overlay": "the layer of a container is lost with it: mount a volume",
	"nfs":     "locks and syncs depend on the server",
	"cifs":    "locks and syncs depend on the server",
	"9p":      "locks and syncs depend on the server",
	"fuse":    "locks and syncs depend on its program",
}

func (r *report) disk(d *Disk) {
	if d.Err != "" {
		r.add("disk", Fail, "correct the permissions", "%s: %s", d.Path, d.Err)
		return
	}
	if d.ReadOnly {
		r.add("disk", Fail, "mount it for writing", "%s is on a file system that is mounted read-only", d.Path)
		return
	}
	text := fmt.Sprintf("%s: %s of %s free", d.Path, size(d.Free), size(d.Total))
	switch s := below(d.Free, leastFree, goodFree); {
	case d.Full:
		r.add("disk", Fail, "free space: a node on a full disk serves reads and writes nothing", "%s, and a small write found no room", text)
	default:
		r.add("disk", s, "free space: a node on a full disk serves reads and writes nothing", "%s", text)
	}
	if d.Limited && d.Files < leastNames {
		r.add("disk", Fail, "remove files, or make the file system with more inodes", "%s: %d files can be created", d.Path, d.Files)
	}
	if why, is := risky[d.Type]; is {
		r.add("file system", Warn, "put the folder on a local disk, unless the chain may be lost", "%s is on %s: %s", d.Path, d.Type, why)
	} else if d.Type != "" {
		r.add("file system", OK, "", "%s is on %s", d.Path, d.Type)
	}
	switch {
	case d.SyncErr != "" && !d.Full:
		r.add("fsync", Fail, "check the disk and the permissions", "%s: a small write failed: %s", d.Path, d.SyncErr)
	case d.Sync > slowSync:
		r.add("fsync", Warn, "use a faster disk: blocks wait for it", "%s: a small write and its fsync take %v",
			d.Path, d.Sync.Round(10*time.Microsecond))
	case d.Sync > 0:
		r.add("fsync", OK, "", "%s: a small write and its fsync take %v", d.Path, d.Sync.Round(10*time.Microsecond))
	}
}

func (r *report) cache(c *Cache) {
	switch {
	case c.Path == "" || !c.Exists:
	case c.NoFolder:
		r.add("contract cache", Warn, "remove it: the node makes a folder there",
			"%s is no folder: each start compiles all contracts again", c.Path)
	case c.ReadOnly:
		r.add("contract cache", Warn, "change the owner or the permissions",
			"%s: this user may not write there: each start compiles all contracts again", c.Path)
	default:
		r.add("contract cache", OK, "", "%s can be written", c.Path)
	}
}

// history reports on the imported older blocks. Blocks below the lowest one are missing until the import
// is done; within their range none is.
func (r *report) history(h *History) {
	const check = "older blocks"
	if h.Path == "" {
		return
	}
	st := &h.Stats
	switch {
	case h.Err != "":
		r.add(check, Warn, "the node runs without them: run `troupe check`, or do what the message says", "%s: %s", h.Path, h.Err)
	case h.Locked:
		r.add(check, OK, "", "%s: a process has it open; `troupe history` asks the running node", h.Path)
	case st.Blocks == 0:
		r.add(check, OK, "", "%s: none yet", h.Path)
	default:
		text := fmt.Sprintf("%s: %d without a gap, heights %d to %d, %s", h.Path, st.Blocks, st.Low.Height, st.Top.Height,
			size(uint64(max(st.Bytes+st.Index, 0))))
		if low := max(h.First, 1); st.Low.Height > low {
			text += fmt.Sprintf("; those below, down to %d or to the chain's first block, are missing", low)
			if h.Source == "" {
				text += ", and troupe.history.source names no feed"
			}
		}
		r.add(check, OK, "", "%s", text)
	}
	switch {
	case h.Source == "":
	case h.FreeErr != "":
		r.add("room for older blocks", Warn, "check the disk", "%s: %s", h.Path, h.FreeErr)
	case h.Free < h.Reserve:
		r.add("room for older blocks", Warn, "free space, or lower troupe.history.disk_reserve_bytes: the import pauses until then",
			"%s: %s free, and the import leaves %s", h.Path, size(h.Free), size(h.Reserve))
	default:
		r.add("room for older blocks", OK, "", "%s: %s free, of which the import leaves %s", h.Path, size(h.Free), size(h.Reserve))
	}
}

func (r *report) remote(f *Facts) {
	o := f.Remote
	if o == nil {
		return
	}
	if o.Err != "" {
		r.add("other node", Fail, "check --url", "%s: %s", o.URL, o.Err)
		return
	}
	if mine := f.Folder.ChainID; mine != "" && o.ChainID != mine {
		r.add("other node", Fail, "name a node of the same chain", "%s is of chain %s, and this home of %s", o.URL, o.ChainID, mine)
	} else {
		r.add("other node", OK, "", "%s answers: chain %s, height %d", o.URL, o.ChainID, o.Height)
	}
	if o.Ahead == nil {
		return
	}
	s, d := OK, max(o.Ahead.Abs()-o.Within, 0)
	switch {
	case d > clockSkewLimit:
		s = Fail
	case d > clockSkew:
		s = Warn
	}
	r.add("clock", s, "synchronize both clocks: nodes refuse blocks from more than 120 s ahead",
		"that of %s differs by %v, within %v", o.URL, o.Ahead.Round(100*time.Millisecond), o.Within.Round(100*time.Millisecond))
}

func size(n uint64) string {
	switch {
	case n == 0:
		return "nothing"
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}
