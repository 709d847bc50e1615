package bench

import (
	"os"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Machine describes the machine on which a benchmark ran.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"` // number of cores that the process may use
	SHANI bool   `json:"sha_ni"`
	OS    string `json:"os"`
	// Load is the load average at the start of the run, including other processes. Empty: unknown
	// on this system.
	Load string `json:"load_average"`
	Go   string `json:"go"`
}

// ThisMachine returns a description of this machine.
func ThisMachine() Machine {
	m := Machine{CPU: cpuid.CPU.BrandName, Cores: runtime.NumCPU(), SHANI: cpuid.CPU.Supports(cpuid.SHA),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(b)); len(f) >= 3 {
			m.Load = strings.Join(f[:3], " ")
		}
	}
	return m
}
