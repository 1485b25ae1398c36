# wfhost. `make` lists the targets.
GO ?= go
FUZZTIME ?= 30s
COVERED = host/internal/datadir host/internal/cluster host/internal/replay host/internal/wasm/validate host/internal/wasm/instrument host/internal/wasm host/internal/timers host/internal/lru host/internal/admission host/internal/schema host/internal/retention host/internal/quarantine host/internal/check host/internal/archive host/internal/schedule host/internal/limits store store/seal cron definition definition/expression definition/yamltext definition/interpret definition/module internal/segment host/internal/fairqueue
COVER_MIN = 90
# The pure core of a run is covered as one, by the tests of its parts, its stories and the simulator.
RUN_PARTS = journal run
RUN_TESTS = $(RUN_PARTS) sim
# So is the shard, whose writer the runtime starts.
SHARD_TESTS = shard sim runtime
RESTATE_VERSION = 1.7.12

TARGETS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: postgres portable portable-vet release help build interpreter build-wasmtime engines test race race-parts beyond lint fuzz fuzz-modules \
  differential cover determinism programs env-programs simulate year upgrades disk-faults faults real bench bench-all compare bench-peers \
  bench-peers-install profile kill workers limits histories crash hostile conform clean page page-pictures trace \
  installation stories fuel js-engine js-engine-check js-tools js-differential test262 costs

help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

build: interpreter ## build bin/wfhost
	CGO_ENABLED=0 $(GO) build -o bin/wfhost ./cmd/wfhost

interpreter: ## build the interpreter of definitions, which is built into wfhost
	GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -buildmode=c-shared -o bin/interpreter.wasm ./definition/interpreter
	gzip -9 -n -c bin/interpreter.wasm >definition/module/built/interpreter.wasm.gz

build-wasmtime: interpreter ## build bin/wfhost-wasmtime, which has the engine wasmtime, too; needs cgo and a C compiler
	@set -e; d=$$(mktemp -d); trap 'rm -rf $$d' EXIT; \
	printf 'go 1.26.0\nuse %s\nuse %s/host/wasmtime\n' "$(CURDIR)" "$(CURDIR)" >$$d/go.work; \
	printf 'package main\n\nimport _ "github.com/wfhost/wfhost/host/wasmtime"\n' >$$d/link.go; \
	printf '{"Replace": {"%s/cmd/wfhost/link.go": "%s/link.go"}}' "$(CURDIR)" $$d >$$d/overlay.json; \
	GOWORK=$$d/go.work CGO_ENABLED=1 $(GO) build -overlay $$d/overlay.json -o bin/wfhost-wasmtime ./cmd/wfhost

clean: ## remove what was built
	rm -rf bin dist definition/module/built/*.wasm.gz

##@ The gate, which every change passes

# go vet ./... has more checks than go test would repeat. The tests count what they cover, so that `make cover` finds most of its
# figures in the cache.
TEST = $(GO) test -vet=off -timeout 30m -cover

test: interpreter ## vet and run all tests, those of the structure included
	$(GO) vet ./...
	$(GO) vet -tags kill,hostile ./cmd/wfhost
	GOOS=wasip1 GOARCH=wasm $(GO) vet ./guest-sdk/go/workflow
	$(TEST) ./...

# Package host itself, and those that mostly build guests, take most of the time; and tests in which one goroutine damages, checks
# and mends files, or follows all links of the page.
ONE_GOROUTINE = TestAcceptLoss|TestCheck(Finds|Of(Ends|Migrations|Moves|Sealed)|Schedules)|TestClear|TestCrawl|TestDamagedLog
ONE_GOROUTINE := $(ONE_GOROUTINE)|TestForgedChunks|TestIndexesAreCut|TestListsAreAsTheModel|TestLongRun|TestPayloadsGoWithTheirRuns
ONE_GOROUTINE := $(ONE_GOROUTINE)|TestPowerLossOfPreparedLogs|TestRepair|TestTornLog
# CONCURRENT matches in the files of packages that start goroutines or lock, or whose tests do: the detector sees nothing in others.
CONCURRENT = "sync|go func|\.Go\(|host/hosttest"
race-parts: ## the same for the parts of the host, and the stores (in the gate)
	$(GO) test -vet=off -race -short -timeout 20m -skip '^($(ONE_GOROUTINE))' \
	  $$($(GO) list -f '{{.ImportPath}} {{.Dir}}' ./host/... ./store/... | grep -v '/host \|/host/conformance ' | while read -r p dir; do \
	    if grep -qE '$(CONCURRENT)' $$dir/*.go; then echo $$p; fi; done)

# Packages whose tests cover them alone, and sets of packages that are covered as one by tests of several.
cover: ## check the coverage of the pure core
	@set -e; out=$$(mktemp); trap 'rm -f $$out' EXIT; \
	enough() { echo "$$1 $$2%"; awk -v c="$$2" -v m=$(COVER_MIN) 'BEGIN { exit !(c >= m) }' || { echo "below $(COVER_MIN)%"; exit 1; }; }; \
	for p in $(COVERED); do $(TEST) ./$$p >$$out || { cat $$out; exit 1; }; \
	  enough $$p $$(sed -n 's/.*coverage: \([0-9.]*\)%.*/\1/p' $$out); done; \
	together() { $(GO) test -vet=off -coverpkg $$(echo $$1 | tr ' ' ,) -coverprofile $$out $$2 >$$out.log || { cat $$out.log; exit 1; }; \
	  rm -f $$out.log; enough "$$1" $$($(GO) tool cover -func $$out | sed -n 's/^total:.*[^0-9.]\([0-9.]*\)%.*/\1/p'); }; \
	together "$(RUN_PARTS:%=./host/internal/%)" "$(RUN_TESTS:%=./host/internal/%)"; \
	together ./host/internal/shard "$(SHARD_TESTS:%=./host/internal/%)"

lint: ## run golangci-lint, which must be installed
	golangci-lint run

##@ Longer tests: random programs, whole hosts, whole years

race: ## run the tests of the host and the stores with the race detector
	$(GO) test -race -short -timeout 90m ./host/... ./store/... ./guest-sdk/...

# By count, since at the end of a time a worker of a busy machine may be "context deadline exceeded", which is no finding.
beyond: race programs real ## what the gate leaves out for its time: all of race, 2,000 random programs, real, and fuzz
	$(MAKE) fuzz FUZZTIME=5000x

programs: ## cut N random programs (2000) at random commits, and restart runs of a tenth as many others from their calls
	$(GO) test ./host -run TestRandomPrograms -count=1 -timeout 60m -rapid.checks=$(or $(N),2000) -rapid.nofailfile
	$(GO) test ./host -run TestRandomRestarts -count=1 -timeout 60m -restarts.n=$$(($(or $(N),2000) / 10))

env-programs: ## run N random programs (1000) from the seed SEED on, on a host and in the environments for tests of Go and TypeScript
	$(GO) test ./guest-sdk/go/stories/rules -run TestProgramsInEnv -count=1 -timeout 60m -programs=$(or $(N),1000) -seed=$(or $(SEED),1)
	$(GO) test ./typescript -run TestProgramsUnderNode -count=1 -timeout 60m -programs=$(or $(N),1000) -seed=$(or $(SEED),1)

postgres: ## run hosts on PostgreSQL, which must be installed: all tests of package host, or RUN of them
	WFHOST_TEST_STORE=postgres $(GO) test ./host -run '$(or $(RUN),.)' -short -count=1 -timeout 120m

simulate: ## simulate N whole hosts, from the seed SEED on; without N, that one alone, with its trace
	$(GO) test ./host/internal/sim -run TestSeeds -count=1 -timeout 60m -v $(if $(SEED),-sim.seed=$(SEED)) $(if $(N),-sim.n=$(N))

determinism: ## compare the memory of 500 random workflows, live and replayed
	WFHOST_RANDOM_WORKFLOWS=500 $(GO) test ./host -run TestRandomWorkflows -count=1 -timeout 120m -v

stories: ## run the stories of all SDKs whose compilers are there, and measure them
	$(GO) test ./host/conformance -count=1 -timeout 30m -v -bench Languages -benchtime 1x

engines: ## pass the conformance suite with the three engines, and replay N random workflows (20) on all of them; needs cgo
	$(GO) test ./host/internal/engine/wazero -run TestConformance -count=1 -timeout 10m
	cd host/wasmtime && CGO_ENABLED=1 $(GO) vet . && CGO_ENABLED=1 $(GO) test . -count=1 -timeout 60m -v -engines.n=$(or $(N),20)

differential: ## compare what modules do with what they do rewritten: all examples, all that come with wazero, those in the folder MODULES
	$(GO) test ./host -run 'TestDifferential$$' -count=1 -timeout 60m -v -differential.all $(if $(MODULES),-differential.modules=$(abspath $(MODULES)))

upgrades: ## let a year pass for N runs (1000) that sleep, while their code and limits change, hosts crash, and runs move
	$(GO) test ./host -run 'TestUpgrades$$' -count=1 -timeout 120m -v -upgrades.n=$(or $(N),1000) -upgrades.seed=$(or $(SEED),1)

year: ## start 1,000 runs a day for a year, keep them for 30 days, and look at what the store holds
	WFHOST_YEAR_RUNS=$(or $(N),1000) $(GO) test ./host -run TestYear -count=1 -timeout 120m -v

installation: ## operate an installation for a year of fake time: cmd/wfhost/testdata/year/year.txt (in the gate)
	$(GO) test ./cmd/wfhost -run 'TestYear$$' -count=1 -v

limits: ## start N runs on KEYS keys with limits, 100000 on 1000, while the host crashes
	$(GO) test ./host -run 'TestLimitCrashes$$' -count=1 -timeout 120m -v -limits.n=$(or $(N),100000) -limits.keys=$(or $(KEYS),1000) -limits.seed=$(or $(SEED),1)

conform: ## send N requests (100000) that the API's description allows, from SEED on, and compare the answers with it
	$(GO) test ./host/httpapi -run 'TestConform$$' -count=1 -timeout 2h -v -conform.n=$(or $(N),100000) -conform.seed=$(or $(SEED),1)

real: ## sleep 10,000 times by the machine's clock, and watch 10,000 sleepers use nothing
	$(GO) test -tags real ./host -run 'TestTenThousandSleep' -count=1 -v

##@ Crashes, faults and hostile input

kill: build ## kill -9 a real server N times, 100, under 50 runs, 30 times under families, 20 times in maintenance
	WFHOST_KILL_ROUNDS=20 $(GO) test -tags kill -count=1 -timeout 90m -v -run TestKill ./cmd/wfhost -kill.rounds=$$(($(or $(N),100) / 2))

crash: ## cut the power of a store N times, 50000, at operations of its file system
	$(GO) test ./store/pebblestore -run TestCrashImages -count=1 -timeout 120m -v -crash.images=$(or $(N),50000) -crash.seed=$(or $(SEED),1)

disk-faults: ## let each operation of the disk fail under a whole host, once and for good
	@set -e; for n in 0 1 2 3 4 5 6 7; do \
	  $(GO) test ./host/internal/baddisk -run 'TestEvery|TestBackup' -every=8 -first=$$n -count=1 -timeout 60m -v; done

faults: ## plant faults that the random programs, the simulator and other tests have to find
	./host/testdata/faults/run.sh
	./host/internal/sim/testdata/faults/run.sh
	./store/testdata/faults/run.sh

histories: ## check N histories of calls, 1000, by clients of a host that crashes
	$(GO) test ./host -run TestHistories -count=1 -timeout 120m -v -linear.rounds=$(or $(N),1000) -linear.seed=$(or $(SEED),1)

workers: ## kill and stop three worker processes at random over N attempts, 10000
	$(GO) test ./worker -run 'TestKilled$$' -count=1 -timeout 60m -v -killed.n=$(or $(N),10000) -killed.seed=$(or $(SEED),1)

hostile: build ## attack a real server for HOSTILE, 1h, while 1,000 honest runs go on; with MORE=1 in more ways
	CGO_ENABLED=0 $(GO) test -tags hostile -count=1 -timeout 3h -v -run TestHostileHour ./cmd/wfhost -hostile.for $(or $(HOSTILE),1h) -hostile.seed $(or $(SEED),1) $(if $(MORE),-hostile.more)

fuzz: ## run each fuzz target for FUZZTIME, 30s or 50000x
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "fuzz $$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x; \
	  done; done

fuzz-modules: ## take N mutated modules (100000) through the host, each with a seed of its own, from SEED on
	$(GO) test ./host -run 'TestMutants$$' -count=1 -timeout 24h -v -mutants.n=$(or $(N),100000) -mutants.seed=$(or $(SEED),1)

##@ Performance

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . ./...

bench-all: build ## measure the host at full size, on the disk of BENCH_DIR; JSON into bench-results/
	@mkdir -p bench-results; set -e; \
	run() { name=$$1; shift; echo "wfhost bench $$* > bench-results/$$name.json"; \
	  bin/wfhost bench "$$@" $(if $(BENCH_DIR),--dir $(BENCH_DIR)) $(BENCH_FLAGS) --format json >bench-results/$$name.json; }; \
	run disk disk --for 10s; \
	run steps-64 steps --runs 64 --for 30s; \
	run steps-1 steps --runs 1 --for 30s; \
	run bodies-64 steps --bodies --runs 64 --for 30s; \
	run bodies-1 steps --bodies --runs 1 --for 30s; \
	run wake wake --due 256 --for 30s; \
	run wake-step wake --due 256 --step --for 30s; \
	run sleepers-10000 sleepers --n 10000 --for 60s; \
	run sleepers-100000 sleepers --n 100000 --for 60s; \
	run sleepers-1000000 sleepers --n 1000000 --for 60s; \
	run late-1000 late --rate 1000 --for 60s; \
	run late-100 late --rate 100 --for 60s; \
	run storm-10000 storm --n 10000; \
	run storm-100000 storm --n 100000; \
	run replay replay --lengths 0,10,100,1000,10000 --n 100; \
	run start start --rate 200 --for 30s; \
	run signal signal --rate 200 --for 30s

compare: ## compare with the commit BASE by benchmarks in turns, as a table of ratios; COMPARE_FLAGS="-rounds 3 -only steps -json FILE"
	@$(GO) run ./bench/compare -base '$(BASE)' $(COMPARE_FLAGS)

bench-peers: ## compare with DBOS on PostgreSQL and with Restate; PEERS_FLAGS="-quick" for some minutes (bench/peers/README.md)
	cd bench/peers && $(GO) vet ./... && $(GO) test -timeout 5m ./... && $(GO) build -o ../../bin/bench-peers .
	cd bench/peers && exec ../../bin/bench-peers $(PEERS_FLAGS)

bench-peers-install: ## install the Restate server for bench-peers into bin/peers, by npm
	mkdir -p bin/peers
	npm install --prefix bin/peers --ignore-scripts --no-audit --no-fund --no-save @restatedev/restate-server@$(RESTATE_VERSION)

profile: build ## profile steps, wakes and a storm of Go guests, and draw the pictures of docs/operate/performance.md
	@set -e; d=$$(mktemp -d); trap 'rm -rf $$d' EXIT; \
	draw() { name=$$1; title=$$2; shift 2; \
	  bin/wfhost bench "$$@" --guest go --probe 50ms --cpu-profile $$d/cpu.prof >/dev/null; \
	  $(GO) tool pprof -traces -unit ms $$d/cpu.prof >$$d/traces.txt; \
	  $(GO) run ./docs/profile -title "$$title" $$d/traces.txt >$$d/out.svg; mv $$d/out.svg docs/profile/$$name.svg; }; \
	draw steps "Steps of 64 runs of a Go guest" steps --runs 64 --for 10s; \
	draw wake "Wakes of a Go guest, with a step each" wake --due 256 --step --for 10s; \
	draw storm "20,000 Go guests that wake at once, and make a step" storm --n 20000 --step

costs: ## print what calls and events cost a run that has 10, 1,000 and as many as it may of what they may look at
	$(GO) test ./host/internal/journal ./host/internal/replay ./host/internal/run -run TestCosts -count=1 -v

fuel: ## measure how many seconds of CPU the fuel of a run lasts, in each language whose compiler is there
	$(GO) test ./host/conformance -run '^$$' -count=1 -timeout 30m -bench 'Fuel$$' -benchtime 3x

##@ The JavaScript engine

js-tools: ## install tsc, ESLint, and packages that tests bundle, with which tests check the SDK for JavaScript, into bin/js, by npm
	mkdir -p bin/js
	npm install --prefix bin/js --ignore-scripts --no-audit --no-fund --no-save eslint@9.39.5 typescript@5.9.3 typescript-eslint@8.74.0 zod@4.6.7 date-fns@4.4.0

js-engine: ## build the JavaScript engine, QuickJS, from its source; needs Debian's apt-get, clang, lld and wasi-libc
	typescript/engine/build.sh

js-engine-check: ## build the JavaScript engine, and compare it with the one in git
	typescript/engine/build.sh --check

js-differential: ## compare the JavaScript engine, its platform and its bundles with Node 22 for FOR, 1h, by programs of the seeds from SEED on
	$(GO) test ./typescript -run 'TestDifferential$$' -count=1 -timeout 25h -v -differential.for=$(or $(FOR),1h) -differential.seed=$(or $(SEED),1)

test262: ## run the tests of tc39/test262, whose folder is DIR, in the JavaScript engine; those whose paths match ONLY
	$(GO) test ./typescript/engine -run 'TestTest262$$' -count=1 -timeout 4h -v -test262=$(abspath $(DIR)) -test262.only='$(ONLY)'

##@ Pictures and traces of the manual

page: ## look at every view of the web page in Chromium with N runs (100000), and measure the longest ones
	$(GO) test ./host/page -run 'TestBrowser' -count=1 -timeout 60m -v -runs=$(or $(N),100000)
	$(GO) test ./host/page -run '^$$' -bench . -benchtime 20x -runs=$(or $(N),100000)

page-pictures: ## take the pictures of docs/interfaces/page.md again, in Chromium
	@set -e; d=$$(mktemp -d); trap 'rm -rf $$d' EXIT; \
	$(GO) test ./host/page -run 'TestWalk$$|TestShots$$' -count=1 -shots $$d -views '^(overview|run-failed|run-waiting|compare)$$'; \
	for n in overview run-failed run-waiting compare; do mv $$d/$$n-light.png docs/images/page-$${n#run-}.png; done; \
	for f in $$d/walk-*.png; do mv $$f docs/images/page-$$(basename $$f); done

trace: ## write the trace of docs/operate/traces.md anew: a collector, and a server that is restarted while a run sleeps
	$(GO) test ./cmd/wfhost -run 'TestServeTraces$$' -count=1 -trace.write

##@ Releases

portable: portable-vet ## vet and build all packages for the six systems of a release
	@set -e; for t in $(TARGETS); do \
	  echo "build $$t"; GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build ./...; done

portable-vet: interpreter ## vet all packages for the six systems of a release, their tests included
	@set -e; for t in $(TARGETS); do \
	  echo "vet $$t"; GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./...; done

release: interpreter ## build the archives, sums and SBOMs of a release into dist, for TARGETS, of a tree without changes
	$(GO) run ./deploy/release -targets $$(echo $(TARGETS) | tr ' ' ,) $(if $(CHANGED),-changed)
