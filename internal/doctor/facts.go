package doctor

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Facts are what Check judges. A zero value means that a fact is unknown, except where noted.
type Facts struct {
	Home     string
	CPUs     int
	CPUQuota float64  // cores that the cgroup allows
	Features []string // of the processor that compiled contracts need and that it lacks
	Memory   Memory
	Limits   Limits
	Clock    Clock
	Folder   Folder
	Disks    []Disk
	Ports    []Port
	Remote   *Remote // nil: no other node was asked
}

// Memory is in bytes.
type Memory struct {
	Total, Available uint64
	Cgroup           uint64 // limit of the cgroup
}

// Limits of a process. 0: unlimited or unknown, except for Files.
type Limits struct {
	Files        uint64 // open files that a process may have
	AddressSpace uint64 // bytes
	FileSize     uint64 // bytes
	Mappings     uint64 // vm.max_map_count
	Overcommit   int    // vm.overcommit_memory: 2 refuses to reserve more memory than there is
}

// Clock are facts about the time.
type Clock struct {
	Now time.Time
	// Synced: the kernel says that a program such as chrony adjusts the clock. nil: unknown.
	Synced *bool
	// Files is the time stamp of a file that was just written, minus the clock. nil: unknown.
	Files *time.Duration
}

// Folder are facts about the home folder.
type Folder struct {
	Missing   bool   // it does not exist, or has no config.json
	Err       string // it cannot be read
	ReadOnly  bool   // this user may not write to it
	Irregular []Irregular
	// of the validation of the files
	Valid            int // files without an error
	Warnings, Errors []string
	Skipped          string // why the files were not validated
	Network          bool   // the node has peers
	Validator        bool   // it has a validator key
	ChainID          string
	GenesisTime      time.Time
	DataErr          string // the data folder is none of this program's
	DataChain        string // chain of the data folder; empty: there is none
	Locked           bool   // a process has the data folder open
	LockedBy         Holder
	Cache            Cache
}

// Irregular is a file that is none: a pipe, a device, a folder.
type Irregular struct{ Path, Kind string }

// Cache are facts about the folder of compiled contracts.
type Cache struct {
	Path     string // empty: unknown
	Exists   bool
	ReadOnly bool
	NoFolder bool // something else has its place
}

// Disk is the file system of a folder.
type Disk struct {
	Path        string // of the folder
	Err         string
	Type        string // ext4 ...; empty: unknown
	Total, Free uint64 // bytes, for this user
	Files       uint64 // that can still be created; 0: unknown, if Limited is false
	Limited     bool
	ReadOnly    bool
	Sync        time.Duration // median of a small write and its fsync; 0: not measured
	SyncErr     string
	Full        bool // the write found no room
}

// Port is an address that the node would listen at.
type Port struct {
	Key    string // of config.json
	Addr   string
	State  PortState // empty: not checked, because its host is a name
	Holder Holder
}

// Remote is another node.
type Remote struct {
	URL     string
	Err     string
	ChainID string
	Ahead   *time.Duration // its clock minus this one; nil: it does not tell its time
	Within  time.Duration  // how exactly that is known
	Height  primitives.Height
}
