//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDeployedReplicasAgreeWithWriter: the set-up of deploy/replicas starts with one command, its
// load balancer gives the same replies as the writer, and it leaves nothing behind when it is
// stopped.
func TestDeployedReplicasAgreeWithWriter(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed")
	}
	var addrs []string
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, l.Addr().String())
		_ = l.Close()
	}
	balancer, writer := addrs[0], addrs[1]
	cmd := exec.Command("../../../deploy/replicas/run.sh", t.TempDir()+"/set-up")
	cmd.Env = append(os.Environ(), "TROUPE="+binary, "BALANCER="+balancer, "WRITER="+writer, "REPLICA1="+addrs[2], "REPLICA2="+addrs[3], "NATS="+addrs[4])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Log(out.String())
		}
	}()
	post := func(addr, method, params string) (string, error) {
		r, err := http.Post("http://"+addr, "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return string(b), err
	}
	soon := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never %s", what)
			}
		}
	}
	well := func(addr string) bool {
		r, err := http.Get("http://" + addr + "/health")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	}
	for i, addr := range addrs[:4] {
		soon(fmt.Sprintf("well at address %d", i), func() bool { return well(addr) })
	}
	want, err := post(writer, "block", `{"block_id":1}`)
	if err != nil || !strings.Contains(want, `"result"`) {
		t.Fatalf("want %s, error %v", want, err)
	}
	soon("the same at the balancer", func() bool {
		got, err := post(balancer, "block", `{"block_id":1}`)
		return err == nil && got == want
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the script ended with %v", err)
	}
	ended = true
	for i, addr := range addrs {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			t.Errorf("address %d is still in use", i)
		}
	}
}
