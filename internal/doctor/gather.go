package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// Limits of Gather.
const (
	maxGenesis    = 256 << 20 // maximum bytes of files that are validated
	validateLimit = 30 * time.Second
	remoteLimit   = 5 * time.Second
	maxReply      = 1 << 20 // bytes
	maxEntries    = 2000    // maximum number of files in epoch_configs
)

// Gather reads the facts of this machine and of a home folder. url is the JSON-RPC of a second node
// to compare with. If url is empty, Gather queries no node.
func Gather(ctx context.Context, dir, url string) *Facts {
	f := &Facts{Home: dir, CPUs: runtime.NumCPU(), Features: missingFeatures()}
	f.Clock.Now = time.Now()
	gatherSystem(f)
	paths, c := gatherFolder(ctx, f)
	f.Disks = []Disk{gatherDisk(nearest(paths.Data), &f.Clock)}
	if cold := nearest(paths.Contracts); c != nil && !sameDisk(f.Disks[0].Path, cold) {
		f.Disks = append(f.Disks, gatherDisk(cold, &f.Clock))
	}
	if h := &f.Folder.History; h.Path != "" {
		at := nearest(h.Path)
		if !slices.ContainsFunc(f.Disks, func(d Disk) bool { return sameDisk(d.Path, at) }) {
			f.Disks = append(f.Disks, gatherDisk(at, &f.Clock))
		}
	}
	if c != nil {
		for _, p := range addresses(c) {
			f.Ports = append(f.Ports, gatherPort(p.key, p.addr))
		}
	}
	if url != "" {
		f.Remote = askRemote(ctx, url)
	}
	return f
}

// missingFeatures lists the amd64 processor features that compiled contracts need and this
// processor lacks.
func missingFeatures() (out []string) {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	for _, id := range []cpuid.FeatureID{cpuid.SSE3, cpuid.SSSE3, cpuid.SSE4, cpuid.SSE42, cpuid.POPCNT} {
		if !cpuid.CPU.Supports(id) {
			out = append(out, id.String())
		}
	}
	return out
}

// gatherFolder reads the home folder. The returned configuration is nil if config.json cannot be
// read.
func gatherFolder(ctx context.Context, f *Facts) (home.Paths, *config.Config) {
	d := &f.Folder
	paths := home.Paths{Dir: f.Home, Data: f.Home, Contracts: f.Home}
	info, err := os.Stat(f.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.Missing = true
		return paths, nil
	case err != nil:
		d.Err = bare(err)
		return paths, nil
	case !info.IsDir():
		d.Err = "it is a " + kind(info.Mode()) + ", not a folder"
		return paths, nil
	}
	d.ReadOnly = !writable(f.Home)
	configFile := filepath.Join(f.Home, home.ConfigFile)
	switch ok, err := d.regular(configFile); {
	case errors.Is(err, fs.ErrNotExist):
		d.Missing = true
		return paths, nil
	case err != nil:
		d.Errors = append(d.Errors, configFile+": "+bare(err))
		return paths, nil
	case !ok:
		return paths, nil
	}
	c, _, err := home.LoadConfig(f.Home)
	if err != nil {
		d.Errors = append(d.Errors, strings.Split(err.Error(), "\n")...)
		return paths, nil
	}
	paths = home.PathsOf(f.Home, c)
	d.data(&paths)
	if h := d.validate(ctx, f.Home, &paths); h != nil {
		c = h.Config // on a public chain the network is on without its key
	}
	d.Network = c.Network.On()
	d.History = gatherHistory(&paths, c)
	return paths, c
}

// regular returns whether path is a regular file. If path exists and is something else, regular
// records that in d.Irregular. The caller must not read such a path: reading a pipe could block,
// and reading a device might never end.
func (d *Folder) regular(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		d.Irregular = append(d.Irregular, Irregular{path, kind(info.Mode())})
		return false, nil
	}
	return true, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	case m.IsRegular():
		return "file"
	}
	return "special file"
}

// validate validates the files with the code of validate-config. validate skips the validation if
// one of the files cannot be read safely or quickly. It returns the home as the node would load it,
// or nil.
func (d *Folder) validate(ctx context.Context, dir string, p *home.Paths) *home.Home {
	files := []string{p.Genesis, p.NodeKey, p.ValidatorKey}
	if p.Records != "" {
		files = append(files, p.Records)
	}
	if f, err := os.Open(p.EpochConfigs); err == nil {
		names, _ := f.Readdirnames(maxEntries)
		_ = f.Close()
		for _, name := range names {
			if filepath.Ext(name) == ".json" {
				files = append(files, filepath.Join(p.EpochConfigs, name))
			}
		}
	}
	large := int64(0)
	for _, file := range files {
		if ok, _ := d.regular(file); ok {
			if info, err := os.Stat(file); err == nil {
				large += info.Size()
			}
		}
	}
	if info, err := os.Stat(p.ValidatorKey); err == nil && info.Mode().IsRegular() {
		d.Validator = true
	}
	if len(d.Irregular) > 0 {
		return nil
	}
	if large > maxGenesis {
		d.Skipped = fmt.Sprintf("the files have %s", size(uint64(large)))
		return nil
	}
	type result struct {
		report *home.Report
		loaded *home.Home
	}
	done := make(chan result, 1)
	go func() {
		r := result{report: daemon.CheckHome(dir, false)}
		r.loaded, _ = home.LoadChain(dir)
		done <- r
	}()
	select {
	case <-ctx.Done():
		d.Skipped = "interrupted"
	case <-time.After(validateLimit):
		d.Skipped = fmt.Sprintf("it took longer than %v", validateLimit)
	case r := <-done:
		d.Valid, d.Warnings, d.Errors = len(r.report.Files), r.report.Warnings, r.report.Errors
		if r.loaded != nil {
			d.ChainID, d.GenesisTime = r.loaded.Genesis.ChainID, time.Unix(0, int64(r.loaded.Genesis.GenesisTime))
		}
		return r.loaded
	}
	return nil
}

// data examines the data folder without opening the store in that folder.
func (d *Folder) data(p *home.Paths) {
	mark := filepath.Join(p.Data, "FORMAT")
	switch ok, err := d.regular(mark); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		d.DataErr = p.Data + ": " + bare(err)
	case ok:
		id, err := storage.ReadIdentity(p.Data)
		if d.DataChain = id.ChainID; err != nil {
			d.DataErr = err.Error()
		}
	}
	d.Locked, d.LockedBy = lockHolder(filepath.Join(p.Data, "index", "LOCK"))
	c := &d.Cache
	c.Path = p.Contracts
	if info, err := os.Stat(p.Contracts); err == nil {
		c.Exists, c.NoFolder, c.ReadOnly = true, !info.IsDir(), !writable(p.Contracts)
	}
}

// gatherHistory reads the figures of the imported older blocks. It reads none of the blocks.
func gatherHistory(p *home.Paths, c *config.Config) (h History) {
	h.Exists = history.Exists(p.History)
	if h.Source = c.History.Source; !h.Exists && h.Source == "" {
		return History{}
	}
	h.Path, h.First, h.Reserve = p.History, c.History.First, c.History.Reserve
	var err error
	if h.Free, err = history.Free(nearest(p.History)); err != nil {
		h.FreeErr = bare(err)
	}
	if !h.Exists {
		return h
	}
	h.Stats, err = history.ReadStats(p.History)
	switch {
	case errors.Is(err, storage.ErrLocked):
		h.Locked = true
	case err != nil:
		h.Err = err.Error()
	}
	return h
}

// nearest returns the path itself if it exists, else the nearest folder above it that exists.
func nearest(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return "."
	}
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		above := filepath.Dir(path)
		if above == path {
			return path
		}
		path = above
	}
}

type address struct{ key, addr string }

// addresses lists the addresses at which a node with this configuration listens.
func addresses(c *config.Config) (out []address) {
	if c.RPC != nil {
		out = append(out, address{"rpc.addr", c.RPC.Addr})
		if m := c.RPC.PrometheusAddr; m != "" && m != c.RPC.Addr {
			out = append(out, address{"rpc.prometheus_addr", m})
		}
	}
	if n := &c.Network; n.On() && n.Addr != "" {
		out = append(out, address{"network.addr", n.Addr})
		if n.Transport == config.Both && n.Libp2p.Addr != "" {
			out = append(out, address{"troupe.network.libp2p.addr", n.Libp2p.Addr})
		}
	}
	if j := &c.JetStream; j.Enabled && j.Listen != "" {
		out = append(out, address{"troupe.jetstream.listen", j.Listen})
	}
	return out
}

// gatherPort tries to listen at an address. gatherPort does not resolve names, because a resolver
// may take long.
func gatherPort(key, addr string) Port {
	p := Port{Key: key, Addr: addr}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return p
	}
	switch host {
	case "":
		host = "::"
	case "localhost":
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil {
		return p
	}
	p.State, p.Holder = PortAt(a)
	if p.State == PortUnusable && host == "::" { // the machine has no IPv6
		p.State, p.Holder = PortAt(netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()))
	}
	return p
}

// askRemote queries the node at url for its status.
func askRemote(ctx context.Context, url string) *Remote {
	o := &Remote{URL: url}
	if !strings.Contains(url, "://") {
		o.URL = "http://" + url
	}
	ctx, cancel := context.WithTimeout(ctx, remoteLimit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.URL, "/")+"/status", nil)
	if err != nil {
		o.Err = err.Error()
		return o
	}
	before := time.Now()
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		o.Err = err.Error()
		return o
	}
	after := time.Now()
	defer func() { _ = r.Body.Close() }()
	var s struct {
		ChainID string `json:"chain_id"`
		Sync    struct {
			Height primitives.Height `json:"latest_block_height"`
		} `json:"sync_info"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxReply)).Decode(&s); err != nil || s.ChainID == "" {
		o.Err = fmt.Sprintf("it answers %s, and no status of a NEAR node", r.Status)
		return o
	}
	o.ChainID, o.Height = s.ChainID, s.Sync.Height
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil { // truncated to a whole second
		trip := after.Sub(before)
		ahead := date.Add(time.Second / 2).Sub(before.Add(trip / 2))
		o.Ahead, o.Within = &ahead, time.Second/2+trip/2
	}
	return o
}

// bare returns the text of an error without operation and path.
func bare(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
