# Everything a developer runs. Needed: Go and a C compiler. `make help` lists the targets.
GO      ?= go
GOFLAGS ?=
BIN     := bin/troupe
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)
HOME_DIR ?= $(CURDIR)/bin/sandbox
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.6.1
SUMTYPE := github.com/alecthomas/go-check-sumtype/cmd/go-check-sumtype@v0.3.1
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
FUZZTIME ?= 30s
# of the tests of one package: what takes two minutes on a quiet machine may take ten on one that is shared
TIMEOUT ?= 25m
# begun first: packages run beside each other, and one long one at the end has the machine to itself
LONG := ./internal/testkit/workload ./internal/testkit/replay ./storage

.PHONY: help build run short test check vuln platforms replay race fuzz bench bench-compare golden contracts e2e size screenshots lint release packages packages-test clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## bin/troupe
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/troupe

run: build ## a sandbox chain in bin/sandbox, JSON-RPC on 127.0.0.1:3030
	@test -f $(HOME_DIR)/config.json || $(BIN) --home $(HOME_DIR) init --chain-id sandbox
	$(BIN) --home $(HOME_DIR) run --rpc-addr 127.0.0.1:3030

test: ## all tests, with the short replays
	$(GO) test -timeout $(TIMEOUT) $(LONG) ./...

# not in make short: packages whose tests take more than 20 seconds each
SLOW := actors/node|bench|bench/load|cmd/troupe|internal/(daemon|testkit/(replay|sim|workload))|net/libp2p|rpc|runtime/(apply|vm)|storage
short: ## the tests of all packages but the slow ones: 2 minutes
	$(GO) test -short -timeout $(TIMEOUT) $$($(GO) list ./... | grep -vE '/troupe/($(SLOW))$$')

lint: ## formatting, vet, staticcheck, house rules
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; test -z "$$out" || { echo "gofmt -w these:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(SUMTYPE) -default-signifies-exhaustive=true ./...
	$(GO) test -count=1 ./internal/testkit/lint

check: lint ## lint, tests, every recorded chain, a tidy go.mod
	$(GO) mod tidy -diff
	TROUPE_REPLAY=all TROUPE_WORKLOADS=all $(GO) test -timeout $(TIMEOUT) $(LONG) ./...
	$(GO) test -tags noshim ./runtime/vm/...
	$(MAKE) platforms vuln

vuln: ## known vulnerabilities in what the code calls (govulncheck; needs vuln.go.dev)
	@out="$$($(GO) run $(GOVULNCHECK) ./... 2>&1)"; code=$$?; echo "$$out"; \
	case "$$out" in *"fetching vulnerabilities"*) echo "vuln: the vulnerability database cannot be reached: nothing was checked";; *) exit $$code;; esac

golden: ## write all golden files again; read the diff before you commit it
	$(GO) test ./internal/config ./internal/testkit/conformance -run 'Reference|Pages' -update
	$(GO) test ./storage ./internal/capture ./primitives/view -run 'Column|Words|Structs' -update
	$(GO) test $$(git grep -l 'cockroachdb/datadriven' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,') -rewrite

# The compiler for arm64 is Debian's gcc-aarch64-linux-gnu.
platforms: ## type-check for linux and macOS on amd64 and arm64; compile for linux/arm64 where there is a compiler for it
	TROUPE_PLATFORMS=all $(GO) test -count=1 -run TestEveryPlatformTypeChecks ./internal/testkit/lint
	@if command -v aarch64-linux-gnu-gcc >/dev/null; then \
	  echo "linux/arm64"; GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc $(GO) build ./...; \
	else echo "no aarch64-linux-gnu-gcc: nothing is compiled for linux/arm64"; fi

replay: ## every recorded chain in every way: arrival in random order, each shard alone, headers, state parts, witnesses
	TROUPE_REPLAY=modes $(GO) test -count=1 -timeout 3h ./internal/testkit/replay

race: ## all tests under the race detector
	$(GO) test -race -timeout $(TIMEOUT) ./...

fuzz: ## every fuzz target for FUZZTIME each
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x $$p || exit 1; \
	  done; \
	done

bench: build ## the shard executor, with the machine's limits from the same run; what all that costs gas takes; contracts hard to compile
	$(BIN) bench shard
	$(GO) test -run '^$$' -bench 'GasTime|Plain' -benchtime 1x ./runtime/vm
	$(GO) run ./internal/testkit/bombs -search 40 -top 30

BASE ?= HEAD~1
PKGS ?= ./rpc ./storage ./chain/partialwitness
BENCH ?= .
ROUNDS ?= 5
bench-compare: ## go test -bench=$(BENCH) of PKGS at BASE and here, in turns, compared by benchstat
	@rm -rf bin/compare && mkdir -p bin/compare && git worktree add -q --detach bin/compare/base $(BASE)
	@trap 'git worktree remove --force bin/compare/base' EXIT; set -e; \
	for i in $$(seq $(ROUNDS)); do \
	  for side in base head; do \
	    dir=.; test $$side = head || dir=bin/compare/base; \
	    for p in $(PKGS); do (cd $$dir && test -d $$p && $(GO) test -run '^$$' -bench '$(BENCH)' -benchtime 200ms $$p || true) >> bin/compare/$$side.txt; done; \
	  done; \
	done; \
	$(GO) run $(BENCHSTAT) bin/compare/base.txt bin/compare/head.txt

e2e: build ## real clients against a sandbox (those whose Node.js, Python or cargo is there)
	$(GO) test -count=1 -timeout 60m -tags e2e ./internal/testkit/e2e/...

size: build ## what mainnet's size needs, in 2 hours: its epoch sync proof, its networks simulated with 100 seeds
	TROUPE_MAINNET_SIZE=full $(GO) test -count=1 -timeout 60m -tags e2e -run TestNodeBeginsOnMainnetByEpochSync ./internal/testkit/e2e
	for s in mainnet-calm mainnet-lossy mainnet-chaos; do $(BIN) sim --scenario $$s --seeds 100 || exit 1; done

screenshots: ## docs/guide/console: the pictures of the web console (needs Node.js, npm, chromium; pngquant makes them smaller)
	TROUPE_SCREENSHOTS=$(CURDIR)/docs/guide/console $(GO) test -count=1 -tags e2e -run TestConsolePictures ./internal/testkit/e2e

contracts: ## the test contracts in C (needs clang and wasm-ld)
	$(GO) run ./internal/testkit/contracts/build internal/testkit/contracts/c

# What the go command and the C library leave: no network of the C library's (netgo), no lookup of users by it, no paths, no symbols.
# Without symbols stack traces, profiles and versions stay: Go has tables of its own for them. Code of wasmtime's library
# that nothing calls is left out where the linker can.
# The C library is linked into it too where a static one is at hand that does; STATIC=0 does not try.
RELEASE_OS := $(shell $(GO) env GOOS)-$(shell $(GO) env GOARCH)
RELEASE := dist/troupe-$(VERSION)-$(RELEASE_OS)
RELEASE_BUILD = CGO_ENABLED=1 $(GO) build -trimpath -tags netgo,osusergo -o $(RELEASE)/troupe
STATIC ?= 1
# completions of a binary into a folder, by the names that bash-completion, zsh and fish look for
completions = mkdir $(2) && $(1) completion bash > $(2)/troupe && $(1) completion zsh > $(2)/_troupe && $(1) completion fish > $(2)/troupe.fish
release: ## dist/: the binary as static as can be, with version and commit, what goes beside it, and sha256 sums
	@rm -rf dist && mkdir -p $(RELEASE)
	{ test '$(STATIC)' = 1 && $(RELEASE_BUILD) -ldflags '-s -w $(LDFLAGS) -linkmode external -extldflags "-static -Wl,--gc-sections"' ./cmd/troupe && $(RELEASE)/troupe version; } \
	  || { echo 'the C library stays outside of it'; $(RELEASE_BUILD) -ldflags '-s -w $(LDFLAGS)' ./cmd/troupe; }
	cp -r LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md deploy docs $(RELEASE)/
	$(call completions,$(RELEASE)/troupe,$(RELEASE)/completions)
	@test "$$($(RELEASE)/troupe version | sed 's/.*(commit \([^)]*\)).*/\1/')" = "$(COMMIT)" || { echo "the binary says another commit"; exit 1; }
	cd dist && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='@$(shell git log -1 --format=%ct 2>/dev/null || echo 0)' -cf - $(notdir $(RELEASE)) | gzip -n > $(notdir $(RELEASE)).tar.gz
	cd dist && sha256sum $(notdir $(RELEASE)).tar.gz $(notdir $(RELEASE))/troupe > SHA256SUMS && cat SHA256SUMS

NPM_PLATFORM = $(shell node -p 'process.platform + "-" + process.arch')
packages: release ## packages/*/dist: npm, PyPI and Debian packages with the release's binary, and the crate (needs Node.js, npm, Python, cargo)
	cd packages/npm && npm install --no-audit --no-fund && rm -rf lib && npm run build
	node packages/npm/scripts/pack.mjs $(NPM_PLATFORM)=$(RELEASE)/troupe
	python3 packages/python/scripts/pack.py $(RELEASE)/troupe
	cd packages/rust && cargo package --no-verify --allow-dirty && mkdir -p dist && cp target/package/*.crate dist/
	@if command -v dpkg-deb >/dev/null; then packages/deb/pack.sh $(RELEASE)/troupe $(VERSION); else echo "no dpkg-deb: no Debian package"; fi

packages-test: packages ## install those in temporary folders, and run tests with the clients and test frameworks that they are for
	node packages/npm/test/run.mjs
	python3 packages/python/test/run.py
	packages/rust/test.sh $(RELEASE)/troupe
	@if command -v dpkg-deb >/dev/null; then packages/deb/test.sh; fi
	packages/action/test.sh

clean: ## remove what was built
	rm -rf bin dist packages/*/dist packages/npm/lib packages/rust/target packages/python/src/troupe_sandbox/_sync
