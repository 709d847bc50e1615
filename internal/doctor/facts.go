package doctor

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/history"
)

// Facts are the input of Check. A zero value means that a fact is unknown, except where noted.
type Facts struct {
	Home     string
	CPUs     int
	CPUQuota float64  // number of cores that the cgroup allows
	Features []string // processor features that compiled contracts need and this processor lacks
	Memory   Memory
	Limits   Limits
	Clock    Clock
	Folder   Folder
	Disks    []Disk
	Ports    []Port
	Remote   *Remote // nil: no other node was queried
}

// Memory is the memory of the machine in bytes.
type Memory struct {
	Total, Available uint64
	Cgroup           uint64 // memory limit of this process's cgroup; 0: none
}

// Limits are resource limits of this process. 0: unlimited or unknown, except for Files.
type Limits struct {
	Files        uint64 // maximum number of open files
	AddressSpace uint64 // maximum size of the address space in bytes
	FileSize     uint64 // maximum size of a file in bytes
	Mappings     uint64 // maximum number of memory mappings (vm.max_map_count)
	Overcommit   int    // vm.overcommit_memory; with 2, Linux refuses to reserve more memory than the machine has
}

// Clock are facts about the time.
type Clock struct {
	Now time.Time
	// Synced says whether a program such as chrony adjusts the clock, according to the kernel. nil:
	// unknown.
	Synced *bool
	// Files is the timestamp of a file that was just written minus the time of the clock. nil:
	// unknown.
	Files *time.Duration
}

// Folder are facts about the home folder.
type Folder struct {
	Missing   bool   // the folder does not exist, or has no config.json
	Err       string // error of reading the folder; empty: none
	ReadOnly  bool   // this user may not write to the folder
	Irregular []Irregular
	// Results of validating the files.
	Valid            int // number of files without an error
	Warnings, Errors []string
	Skipped          string // why the files were not validated
	Network          bool   // the node has peers
	Validator        bool   // the home folder has a validator key
	ChainID          string
	GenesisTime      time.Time
	// why the data folder does not belong to this program; empty: the folder belongs to this
	// program
	DataErr   string
	DataChain string // chain of the data folder; empty: there is no data folder
	Locked    bool   // a process has the data folder open
	LockedBy  Holder
	Cache     Cache
	History   History
}

// History are facts about the imported older blocks of an archive.
type History struct {
	Path   string // folder; empty: this node has and imports none
	Source string // feed; empty: no import
	// First is the lowest height that the node will import.
	First   primitives.Height
	Reserve uint64 // bytes of the disk that the import leaves; 0: it does not ask
	Free    uint64 // bytes that are free on the disk
	FreeErr string
	Exists  bool   // a node has begun an import
	Locked  bool   // a process has the folder open, so Stats is unknown
	Err     string // error of reading the folder; empty: none
	Stats   history.Stats
}

// Irregular is a path that should be a file and is a pipe, a device or a folder.
type Irregular struct{ Path, Kind string }

// Cache are facts about the folder of compiled contracts.
type Cache struct {
	Path     string // empty: unknown
	Exists   bool
	ReadOnly bool
	NoFolder bool // the path exists, but is no folder
}

// Disk describes the file system that contains a folder.
type Disk struct {
	Path        string // path of the folder
	Err         string
	Type        string // for example ext4; empty: unknown
	Total, Free uint64 // bytes, for this user
	Files       uint64 // number of files that can still be created; 0: unknown, if Limited is false
	Limited     bool
	ReadOnly    bool
	Sync        time.Duration // median of a small write and its fsync; 0: not measured
	SyncErr     string
	Full        bool // the test write failed because the disk is full
}

// Port is an address at which the node would listen.
type Port struct {
	Key    string // key in config.json
	Addr   string
	State  PortState // empty: not checked, because the host is a name
	Holder Holder
}

// Remote is a second node whose status was queried, to compare clocks and heights with this
// machine.
type Remote struct {
	URL     string
	Err     string
	ChainID string
	Ahead   *time.Duration // the remote node's clock minus this machine's clock; nil: the remote node sends no time
	Within  time.Duration  // error bound of Ahead
	Height  primitives.Height
}
