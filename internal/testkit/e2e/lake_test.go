//go:build e2e

package e2e

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// TestLakeFrameworkReadsEveryBlock: near-lake-framework from npm reads from a bucket what troupe
// stream has written from a node, before and after a restart of that command: every block, with all
// its shards and their transactions.
func TestLakeFrameworkReadsEveryBlock(t *testing.T) {
	need(t, "node", "npm")
	installed(t, npmInstall)
	store := s3mem.New()
	if err := store.CreateBucket("blocks"); err != nil {
		t.Fatal(err)
	}
	s3 := httptest.NewServer(gofakes3.New(store).Server())
	defer s3.Close()
	p := start(t, newHome(t, "--num-shards", "4"))
	script(t, "js", p.env(), "node", "native.mjs") // so that there are transactions
	const each, runs = 25, 3
	for range runs {
		c := exec.CommandContext(t.Context(), binary, "stream", "--from", "http://"+p.addr, "--lake", "blocks", "--s3-endpoint", s3.URL, "--s3-region", "us-east-1",
			"--sync-mode", "FromInterruption=0", "--count", fmt.Sprint(each))
		c.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("error %v\noutput:\n%s", err, out)
		}
	}
	script(t, "js", []string{"S3_ENDPOINT=" + s3.URL, "S3_BUCKET=blocks", fmt.Sprint("BLOCKS=", each*runs)}, "node", "lake.mjs")
}
