# Holdfast: one place for every command of the repository.
# A line with ## behind a target is its help; make help prints them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

GO ?= go

# The modules, as go.work lists them. To work on one of them:
#   make test MODULES=store/goredis
MODULES ?= $(shell $(GO) work edit -json go.work | sed -n 's/^.*"DiskPath": *"\(.*\)".*$$/\1/p')

# More flags for go test, such as TESTFLAGS='-run TestHandOver -count 20'.
TESTFLAGS ?=

# The race detector needs cgo, and so a C compiler; go env answers 0 for it
# where there is none. Then the tests run without it, and the last line says so.
RACE ?= $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

# Pinned: a new linter release must not turn yesterday's commit red.
LINT_VERSION := 2.15.0
GOLANGCI_LINT ?= $(CURDIR)/bin/golangci-lint-$(LINT_VERSION)

ifndef VERSION
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
endif

# $(call each,what,command) runs a command in every module, one after the
# other: go uses all processors for one, and tests that measure time must not
# run beside others. All modules are tried; the last line names those that failed.
define each
	@test -n "$(MODULES)" || { echo "no modules: is go.work here?" >&2; exit 1; }; \
	failed=; count=0; \
	for module in $(MODULES); do \
		echo "== $(1): $$module"; \
		count=$$((count + 1)); \
		( cd "$$module" && $(2) ) || failed="$$failed $$module"; \
	done; \
	if [ -n "$$failed" ]; then echo "== $(1): FAILED in$$failed" >&2; exit 1; fi; \
	echo "== $(1): $$count of $$count modules passed$(3)"
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  one module only:   make test MODULES=store/goredis"
	@echo "  some tests only:   make test TESTFLAGS='-run TestName'"

# The workspace hides what a module's own go.mod lacks. A user of one module
# has no workspace, so each must build without it. -o /dev/null: otherwise go
# leaves the binary of a module that is one command. -buildvcs=false: whether
# git trusts this directory is no matter of the code.
ISOLATED = GOWORK=off $(GO) build -buildvcs=false -o /dev/null ./... && GOWORK=off $(GO) vet ./...

# What is tested with the race detector, how much at once, and what is printed at
# the end is in internal/runtests. It is built as it builds the tests without the race detector:
# with other flags, go would compile the standard library once more.
RUNTESTS = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/runtests ./internal/runtests && bin/runtests -go '$(GO)' $(if $(RACE),,-race=false)

# bench/etcd has two tests, and needs 240 packages that no other module needs. To compile them takes
# minutes of a processor, so that module is for test-long, and for who names it.
DAILY = $(if $(filter file,$(origin MODULES)),$(filter-out ./bench/etcd,$(MODULES)),$(MODULES))

# Only the tests of one module need promtool.
PROMTOOL = $(if $(filter verify/observe ./verify/observe,$(MODULES)),promtool)

# Only the tests of these modules need database servers.
DATABASES = $(if $(filter . bench/sql ./bench/sql verify/fence ./verify/fence examples ./examples,$(MODULES)),databases)

.PHONY: test
test: servers $(PROMTOOL) $(DATABASES) ## vet and test the modules (not bench/etcd); installs a redis-server if there is none
	@$(RUNTESTS) $(DAILY) -- $(TESTFLAGS)

# What takes too long for every day: every package with the race detector, the worlds
# of the simulation and the sequences of the oracle by the thousand, and all tests on
# secured servers. The track record of the fault suite begins with it.
.PHONY: test-long
test-long: servers $(PROMTOOL) $(DATABASES) ## all tests with the race detector, secured, and long searches (an hour)
	@$(RUNTESTS) -everywhere $(MODULES) -- -timeout 60m $(TESTFLAGS)
	@$(MAKE) test-secured
	@$(MAKE) worlds WORLDS=20000
	$(GO) test -race -timeout 0 -run TestLocksAreGrantedAgainAfterManyFaults ./quorum -storms 40
	cd verify && $(GO) test -timeout 0 ./oracle -rapid.checks=3000

# The same tests on servers that have TLS, the rights of docs/operating.md for
# their clients, and a prefix for a tenant. Without: the measurements of bench, the
# other libraries' locks in lineage, the guards of fence, and the examples, which
# are programs for a server as it comes.
#
# Without the race detector, which make test has: with it a handshake of TLS takes
# as long as the shortest requests may, on a machine that has other work.
SECURED = HOLDFAST_TEST_SERVERS=secured $(GO) test
OPEN_ONLY = /(bench|examples|fence|lineage)(/|$$)

.PHONY: test-secured
test-secured: servers $(PROMTOOL) $(DATABASES) ## test every module on secured servers: TLS, least privilege, a tenant's prefix
	$(call each,test-secured,packages=$$($(GO) list ./... | grep -vE '$(OPEN_ONLY)'); test -z "$$packages" || $(SECURED) $(TESTFLAGS) $$packages)

# make test lives through some thousands. A longer search is for this one.
WORLDS ?= 20000

.PHONY: worlds
worlds: ## live through simulated worlds (WORLDS=100000 for a long search)
	cd verify && $(GO) test -timeout 0 -run 'TestWorlds$$|TestTheScriptsLiveTheSameWorlds' ./sim -seeds $(WORLDS)

.PHONY: lineage
lineage: servers ## show each flaw of docs/lineage.md on the classic lock, and that Holdfast holds
	@cd verify && $(GO) run ./lineage/table

# Newer servers than this system's are unpacked beside it, from newer suites of
# Debian: nothing is installed. SERVERS='sid/valkey-server' SUITES='rules' say less.
.PHONY: test-servers
test-servers: servers ## run what depends on the server on newer ones: Redis 8, Valkey 8 and 9 (an hour)
	@GO='$(GO)' sh scripts/test-servers.sh

# Not part of test, which only asks whether every mutant can still be made: the
# whole takes a quarter of an hour on an idle machine.
.PHONY: mutation
mutation: servers ## break the library in over 300 ways, and see that the tests notice each
	cd verify && $(GO) run ./mutation

# Not part of test, which needs Go and a server only: this needs a browser and Node.
.PHONY: test-page
test-page: servers ## test the page of holdfast serve in a real browser; installs chromium if there is none
	@mkdir -p bin && cd cmd/holdfast && $(GO) build -o ../../bin/holdfast .
	@sh scripts/test-page.sh

# Not part of test: it builds ten binaries, and needs programs of Linux distributions.
.PHONY: test-dist
test-dist: servers ## test what make dist makes by the programs that read it; installs them (5 minutes)
	@GO='$(GO)' sh scripts/test-dist.sh

# Not part of test: it needs Maven and a Java compiler.
.PHONY: test-java
test-java: ## compile the Java code of docs/moving against Redisson; installs a compiler if there is none
	@sh scripts/test-java.sh

# Not part of test: client-go and what it needs are over 700 packages, which take 280 s of processor time.
.PHONY: test-kubernetes
test-kubernetes: ## compile integrate/leaderelection against client-go, and run both electors (minutes, the first time)
	@cd verify/integrate/testdata/kubernetes && GOWORK=off $(GO) vet ./... && GOWORK=off $(GO) test ./...

# Not part of test: it needs Maven, which fetches Redisson, and Java.
REDISSON = sh scripts/redisson.sh

.PHONY: test-redisson
test-redisson: servers ## try our locks against those of real Redisson; installs Maven and Java if there is none
	@cd compat/redisson/crossing && $(GO) vet -tags redisson ./...
	@$(REDISSON) $(GO) test -C compat/redisson/crossing -tags redisson -timeout 20m $(TESTFLAGS) ./...

# Two libraries share locks under faults, and the original alone meets the same ones.
NEIGHBOUR ?= redisson
SEED ?= 1

.PHONY: fleet
fleet: servers ## another library's processes and ours under faults (NEIGHBOUR=redisson DURATION=10m SEED=1)
	@mkdir -p bin && $(GO) build -C verify/neighbours -o $(CURDIR)/bin/fleet ./fleet
	@$(if $(filter redisson,$(NEIGHBOUR)),$(REDISSON)) bin/fleet -neighbour $(NEIGHBOUR) -duration $(DURATION) -seed $(SEED)

.PHONY: rate-redisson
rate-redisson: servers ## pairs of lock and unlock a second: Redisson, ours, and both together (a minute)
	@mkdir -p bin && $(GO) build -C verify/neighbours -o $(CURDIR)/bin/rate ./rate
	@$(REDISSON) bin/rate $(RATEFLAGS)

.PHONY: test-isolated
test-isolated: ## build and vet every module on its own, without go.work
	$(call each,test-isolated,$(ISOLATED))

.PHONY: servers
servers: ## make sure that a redis-server or valkey-server is on PATH
	@sh scripts/servers.sh

.PHONY: databases
databases: ## make sure that PostgreSQL, MariaDB and versitygw are there, for the tests of fence
	@GO='$(GO)' sh scripts/databases.sh

.PHONY: promtool
promtool: ## make sure that there is a promtool, on PATH or in bin
	@sh scripts/promtool.sh

# Not part of test: the first run builds the linter, which takes minutes and
# a gigabyte of modules, and what a stranger wants to know is whether the
# library works. CI has a job for it beside the tests.
.PHONY: lint
lint: $(GOLANGCI_LINT) ## run golangci-lint over every module, and look for untidy go.mod files
	$(call each,lint,$(GOLANGCI_LINT) run ./... && GOWORK=off $(GO) mod tidy -diff)

# The version is in the file's name, so that a new pin is a new file.
$(CURDIR)/bin/golangci-lint-%:
	GOWORK=off GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$*
	mv bin/golangci-lint $@

# What docs/vet.md describes. A machine without the linter can run it too.
.PHONY: vet-locks
vet-locks: ## look for mistakes with locks in every module, with holdfast-vet
	@mkdir -p bin && cd vet && GOWORK=off $(GO) build -o ../bin/holdfast-vet ./holdfast-vet
	$(call each,vet-locks,$(GO) vet -vettool=$(CURDIR)/bin/holdfast-vet ./...)

# A short run on one server is part of test. This one goes over all topologies,
# for DURATION each, and half a minute more with a thousand waiters, which leave
# nothing to others. It leaves pages for a browser, and the histories of broken
# rounds, in bin/verify. VERIFYFLAGS='--seed 7 --faults stop,cut' says more.
DURATION ?= 2m
TOPOLOGIES ?= standalone durable everysec sentinel cluster quorum
VERIFYFLAGS ?=

.PHONY: verify
verify: servers ## run the fault suite over all topologies (DURATION=2m TOPOLOGIES='sentinel cluster')
	@mkdir -p bin/verify && cd verify && $(GO) build -o ../bin/verify/holdfast-verify ./holdfast-verify
	@failed=; \
	for topology in $(TOPOLOGIES); do \
		echo "== verify: $$topology"; \
		bin/verify/holdfast-verify --topology $$topology --duration $(DURATION) --dir bin/verify \
			--html bin/verify/$$topology.html $(VERIFYFLAGS) || failed="$$failed $$topology"; \
		echo "== verify: $$topology, a thousand waiters"; \
		bin/verify/holdfast-verify --topology $$topology --duration 30s --ttl 3s --dir bin/verify \
			--html bin/verify/$$topology-thousand.html --works thousand || failed="$$failed $$topology-thousand"; \
	done; \
	if [ -n "$$failed" ]; then echo "== verify: BROKEN on$$failed" >&2; exit 1; fi; \
	echo "== verify: every promise was kept; see bin/verify/*.html"

# A mixed load on one server for DURATION, with the faults of networks and servers. Samples go
# into SOAK, line by line. It fails if goroutines, heap, the server's memory or keys do not return.
SOAK ?= bin/soak.csv

.PHONY: soak
soak: servers ## a mixed load with faults, and whether memory returns to where it began (DURATION=1h SOAK=file.csv)
	@mkdir -p bin && $(GO) build -C verify -o ../bin/soak ./soak
	bin/soak -duration $(DURATION) -into $(SOAK) $(SOAKFLAGS)

# Each run continues the record: rounds are added to a file, and the pairs of faults
# that it lacks come first. All topologies run at the same time, since most of a fault is
# waiting. Short pauses between acquisitions, few clients with much to do, and rounds that
# are long enough for what a round costs at its ends. What broke leaves its history in
# bin/verify, and the run goes on.
RECORD := docs/track-record/rounds.jsonl
RECORDFLAGS ?= --round 90s --rest 0.05 --clients 3 --calm 1s

.PHONY: track-record
track-record: servers ## add to the track record: all topologies at once, for DURATION (TOPOLOGIES='quorum')
	@mkdir -p bin/verify && cd verify && $(GO) build -o ../bin/verify/holdfast-verify ./holdfast-verify
	@rm -f bin/verify/track-record.broken; \
	for topology in $(TOPOLOGIES); do \
		{ bin/verify/holdfast-verify --topology $$topology --duration $(DURATION) $(RECORDFLAGS) \
			--pairs --record $(RECORD) --dir bin/verify $(VERIFYFLAGS) 2>&1 >bin/verify/$$topology.txt || \
			echo $$topology >>bin/verify/track-record.broken; } | sed "s/^/$$topology: /" & \
	done; wait; \
	bin/verify/holdfast-verify --summary $(RECORD) >docs/track-record/record.md; \
	if [ -f bin/verify/track-record.broken ]; then \
		echo "== track-record: BROKEN on" $$(cat bin/verify/track-record.broken) >&2; exit 1; fi

# Not part of test: it takes a minute or two, and nothing in the Go files can
# change what it finds. CI has a job for it.
.PHONY: model
model: ## search the Spin models in docs/model; installs spin if there is none
	@sh scripts/model.sh

.PHONY: fmt
fmt: ## format the Go files
	gofmt -s -l -w .

.PHONY: tidy
tidy: ## go mod tidy in every module
	$(call each,tidy,GOWORK=off $(GO) mod tidy)

# Without the workspace, so that the binary has the versions that its own
# go.mod names, as go install would give it. Without cgo, as make dist builds
# it: it is smaller, and needs no C library.
.PHONY: build
build: ## build the tool as bin/holdfast, and the fault suite as bin/holdfast-verify
	@mkdir -p bin
	cd cmd/holdfast && CGO_ENABLED=0 GOWORK=off $(GO) build -tags nethttpomithttp2 -trimpath -ldflags '-s -w -funcalign=16' -o ../../bin/holdfast .
	cd verify && CGO_ENABLED=0 GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o ../bin/holdfast-verify ./holdfast-verify

# Where make install puts things. DESTDIR is for those who make packages.
PREFIX ?= /usr/local
DESTDIR ?=
SHARE = $(DESTDIR)$(PREFIX)/share

.PHONY: install
install: build ## install both commands, man pages and completions (PREFIX=/usr/local DESTDIR=)
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
		$(SHARE)/fish/vendor_completions.d
	install -m 755 bin/holdfast bin/holdfast-verify $(DESTDIR)$(PREFIX)/bin
	bin/holdfast man $(SHARE)/man
	bin/holdfast completion bash >$(SHARE)/bash-completion/completions/holdfast
	bin/holdfast completion zsh >$(SHARE)/zsh/site-functions/_holdfast
	bin/holdfast completion fish >$(SHARE)/fish/vendor_completions.d/holdfast.fish

# It removes what make install puts there, and no directory: others may use it.
.PHONY: uninstall
uninstall: ## remove what make install installed (the same PREFIX and DESTDIR)
	rm -f $(DESTDIR)$(PREFIX)/bin/holdfast $(DESTDIR)$(PREFIX)/bin/holdfast-verify \
		$(SHARE)/man/man1/holdfast.1 $(SHARE)/man/man1/holdfast-*.1 $(SHARE)/man/man7/holdfast-*.7 \
		$(SHARE)/bash-completion/completions/holdfast $(SHARE)/zsh/site-functions/_holdfast \
		$(SHARE)/fish/vendor_completions.d/holdfast.fish

# VERSION of this file is what a build says of itself; a release needs one from the command line.
# PROXY=DIR also makes a module proxy of files, to try the version before it is public.
.PHONY: release
release: ## prepare a version: changelog, commit, tags; publishes nothing (VERSION=v0.1.0 PROXY=)
	$(if $(filter command line environment,$(origin VERSION)),,$(error which version? Write: make release VERSION=v0.1.0))
	$(GO) run ./internal/versions -go '$(GO)' $(if $(PROXY),-proxy '$(abspath $(PROXY))') '$(VERSION)'

# Who builds the same commit with the same Go release gets the same bytes.
REF ?= HEAD
DIST ?= bin/dist

.PHONY: dist
dist: ## make archives, Debian packages, bills of materials and checksums of a commit (REF=v0.1.0 DIST=bin/dist)
	cd packaging && $(GO) run . -go '$(GO)' -ref '$(REF)' '$(abspath $(DIST))'

.PHONY: demo
demo: ## watch locks change hands on this machine
	$(GO) run ./cmd/holdfast demo

# Ten runs each: benchstat needs them to tell a change from noise.
BENCH ?= .
COUNT ?= 10
NOW := $(shell date -u +%Y%m%dT%H%M%SZ)
RESULT ?= bench/results/$(NOW)-$(VERSION).txt

.PHONY: bench
bench: servers ## run the benchmarks into bench/results/ for benchstat (BENCH=regexp COUNT=10)
	@mkdir -p bench/results bin
	@{ (cd bench && $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 0 ./...); \
		echo $$? >bin/bench.status; } | tee $(RESULT)
	@echo "== bench: $(RESULT)"; exit "$$(cat bin/bench.status)"

# Etcd's lock is a program of its own: the benchmarks find it by -etcd.
ETCD := $(CURDIR)/bin/bench-etcd

# Redis's locks by other libraries, by ours with their API, and by native locks on their keys.
.PHONY: bench-neighbours
bench-neighbours: servers ## throughput and cost of redsync and redislock, and of ours on their keys (two minutes)
	@cd verify/compat && $(GO) test -count 1 -run '^TestThroughput$$' -bench '^BenchmarkPair$$' -benchtime 2000x . -each 2s


# The peers at every workload, the kinds of lock, the curves and the server's
# cost: all that docs/benchmarks.md shows. The rounds are few and the runs
# several, so that what the machine does meanwhile meets everybody.
.PHONY: bench-versus
bench-versus: servers ## measure Holdfast beside its peers for docs/benchmarks.md (an hour)
	@mkdir -p bench/results
	cd bench/etcd && GOWORK=off $(GO) build -o $(ETCD) .
	cd bench && { $(GO) test -run '^$$' -bench 'Versus' -benchtime 3x -count 2 -timeout 0 . -etcd $(ETCD) && \
		$(GO) test -run '^$$' -bench 'Kinds$$' -benchtime 1000x -count 3 -timeout 0 . && \
		$(GO) test -run '^$$' -bench 'KindsShared|Scale|ServerCostOfHandOver' -benchtime 1x -count 2 -timeout 0 . && \
		$(GO) test -run '^$$' -bench 'ServerCost$$' -benchtime 4000x -count 2 -timeout 0 . ; } \
		> results/versus.txt || { cat results/versus.txt; exit 1; }

.PHONY: bench-page
bench-page: ## draw docs/benchmarks from bench/results/versus.txt, or anew from its figures.json
	cd bench && $(GO) run ./chart $$(ls results/versus.txt 2>/dev/null)

# A part of the curves, such as CURVES=waiters MOST=10000, replaces its figures and no others.
# Of several runs the lowest value counts.
CURVES ?= .
MOST ?= 1000000
RUNS ?= 2

.PHONY: bench-curves
bench-curves: servers ## measure cost over size, and draw docs/scaling.md (15 minutes; CURVES=regexp MOST=10000 RUNS=2)
	@mkdir -p bench/results
	cd bench && { $(GO) test -run '^$$' -bench 'Curves/$(CURVES)' -benchtime 1x -count $(RUNS) -timeout 0 . -most $(MOST) || \
		echo FAILED; } | tee results/curves.txt
	@! grep -q -e '^FAILED' -e '^FAIL' bench/results/curves.txt
	@$(MAKE) bench-curves-page

.PHONY: bench-curves-page
bench-curves-page: ## draw docs/scaling.md from what was measured in bench/results, or anew from its figures
	cd bench && $(GO) run ./chart -curves -page ../docs/scaling.md \
		$$(ls results/curves.txt results/storm.txt results/servers.txt results/latency.txt 2>/dev/null)

.PHONY: bench-storm
bench-storm: servers ## how long all renewals after a pause take (12 minutes; MOST=100000: 2)
	@mkdir -p bench/results
	cd bench && $(GO) test -run '^$$' -bench Storm -benchtime 1x -timeout 0 . -most $(MOST) >results/storm.txt || \
		{ cat results/storm.txt; exit 1; }
	@$(MAKE) bench-curves-page

.PHONY: bench-servers
bench-servers: servers ## what the scripts cost on Redis 8, Valkey 8 and 9 beside this system's server (10 minutes)
	@mkdir -p bench/results
	@GO='$(GO)' RUNS='$(RUNS)' sh scripts/bench-servers.sh >bench/results/servers.txt || \
		{ cat bench/results/servers.txt; exit 1; }
	@$(MAKE) bench-curves-page

# The relay puts a round trip in front of the servers of everybody.
LATENCIES ?= 1ms 10ms

.PHONY: bench-latency
bench-latency: servers ## pairs and hand-overs beside the peers, with a server that is far away (LATENCIES='1ms 10ms')
	@mkdir -p bench/results
	@cd bench && for trip in $(LATENCIES); do \
		{ $(GO) test -run '^$$' -bench 'Versus/(pair|hand-over-1)$$' -benchtime 3x -timeout 0 . -latency $$trip || \
			echo FAILED; } | sed "s,^BenchmarkVersus/,BenchmarkFar/$$trip/,"; done >results/latency.txt
	@! grep -e '^FAILED' -e '^FAIL' bench/results/latency.txt
	@$(MAKE) bench-curves-page

.PHONY: bench-hops
bench-hops: servers ## follow a hand-over hop by hop, beside the least that could hand over (2 minutes)
	cd bench && $(GO) test -run '^$$' -bench Hops -benchtime 1x -timeout 0 .

.PHONY: bench-check
bench-check: servers ## fail if a ratio is worse than bench/recorded.json (5 minutes)
	cd bench && $(GO) run ./guard

.PHONY: bench-record
bench-record: servers ## write bench/recorded.json anew
	cd bench && $(GO) run ./guard -record

# The tests of one module run code of another (an adapter's tests run the
# library), so the counts of all are put together before they are judged.
.PHONY: cover
cover: servers ## measure which lines the tests of all modules reach, in bin/cover.html
	@rm -rf bin/cover && mkdir -p bin/cover
	$(call each,cover,$(GO) test -cover -coverpkg=github.com/holdfast-go/holdfast/... ./... -args -test.gocoverdir=$(CURDIR)/bin/cover)
	$(GO) tool covdata textfmt -i=bin/cover -o=bin/cover.out
	$(GO) tool cover -html=bin/cover.out -o=bin/cover.html
	@$(GO) tool cover -func=bin/cover.out | tail -n 1

.PHONY: clean
clean: ## remove what make built; benchmark results stay
	rm -rf bin
