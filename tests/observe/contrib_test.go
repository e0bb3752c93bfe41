package observe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

var repository = filepath.Join("..", "..")

// read returns a file of the repository.
func read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{repository}, name...)...))
	assert.Must(t, err)
	return string(text)
}

var (
	alertLine   = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	runbookLine = regexp.MustCompile(`(?m)^ +runbook_url: (\S+)$`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	ownName     = regexp.MustCompile(`\bholdfast_\w+`)
	matcher     = regexp.MustCompile(`(holdfast_\w+)(?:=|!=|=~|!~)"([^"]*)"`)
)

// runbook is where the links of the alerts lead.
const runbook = "https://github.com/holdfast-go/holdfast/blob/main/docs/runbook.md#"

// Each alert has a section on the page, and a link to it. Each has a test in which it
// fires.
func TestEveryAlertHasItsSection(t *testing.T) {
	rules := read(t, "contrib", "prometheus", "alerts.yml")
	cases := read(t, "contrib", "prometheus", "alerts_test.yml")
	sections := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(read(t, "docs", "runbook.md"), -1) {
		sections[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	alerts := alertLine.FindAllStringSubmatch(rules, -1)
	links := runbookLine.FindAllStringSubmatch(rules, -1)
	assert.MustTrue(t, len(alerts) >= 8 && len(links) == len(alerts),
		"there are %d alerts and %d links", len(alerts), len(links))
	for i, alert := range alerts {
		anchor, found := strings.CutPrefix(links[i][1], runbook)
		if !found || anchor != strings.ToLower(alert[1]) || !sections[anchor] {
			t.Errorf("%s links to %s, which is not a section of its own", alert[1], links[i][1])
		}
		if !strings.Contains(cases, "alertname: "+alert[1]+" }") {
			t.Errorf("no test says when %s does not fire", alert[1])
		}
		if !strings.Contains(cases, "alertname: "+alert[1]+"\n        exp_alerts:") {
			t.Errorf("no test says when %s fires", alert[1])
		}
	}
}

// figures are the words for the figures of the alerts.
var figures = map[string][]string{
	"ten minutes": {"[10m]"}, "fifteen minutes": {"[15m]", "> 900"}, "last hour": {"[1h]"}, "half a second": {"> 0.5"},
	"one of a hundred": {"> 0.01"}, "five of a hundred": {"> 0.05"}, "one in a hundred": {"quantile(0.99"},
	"a fifth": {`le="0.2"`}, "last fifth": {`le="0.2"`},
}

var (
	figureWords = regexp.MustCompile(`\b(?:\w+ (?:minutes?|hours?|(?:of|in) a hundred|fifth)|half a second)\b`)
	threshold   = regexp.MustCompile(`> 0?\.?[1-9]\d*|> 0\.0\d+`)
	panelName   = regexp.MustCompile(`\*([a-z ]+)\* in the dashboard`)
)

// What an alert's summary and its section say in figures is what its rule says, and the other way round. A rule that
// looks back over a time has no "for": it would fire so much later than the section says.
func TestTheFiguresOfTheAlertsAreThoseOfTheRunbook(t *testing.T) {
	rules, page := read(t, "contrib", "prometheus", "alerts.yml"), read(t, "docs", "runbook.md")
	compared := 0
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, rule, _ := strings.Cut(rule, "\n")
		_, section, _ := strings.Cut(page, "### "+name+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		rule, words, _ := strings.Cut(rule, "annotations:")
		words = strings.ToLower(words + section)
		for _, said := range figureWords.FindAllString(words, -1) {
			assert.True(t, slices.ContainsFunc(figures[said], func(f string) bool { return strings.Contains(rule, f) }),
				"%s: the text says %q, and the rule does not:\n%s", name, said, rule)
			compared++
		}
		for _, f := range threshold.FindAllString(rule, -1) {
			said := slices.DeleteFunc(slices.Sorted(maps.Keys(figures)), func(text string) bool {
				return !slices.Contains(figures[text], f) || !strings.Contains(words, text)
			})
			assert.True(t, len(said) > 0, "%s: the rule says %q, and neither its summary nor its section does", name, f)
		}
		assert.False(t, strings.Contains(rule, "_over_time(") && strings.Contains(rule, "for:"),
			"%s fires later than it says", name)
	}
	assert.AtLeast(t, compared, 15, "compared figures")
	boards := expressions(t)
	for _, m := range panelName.FindAllStringSubmatch(page, -1) {
		title := strings.ToUpper(m[1][:1]) + m[1][1:]
		assert.True(t, boards[title] != nil, "the runbook names the panel %q, which the dashboard does not have", title)
	}
}

// expressions are the queries of the dashboard, by the panel or the variable.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	type query struct {
		Expr string `json:"expr"`
	}
	var board struct {
		Panels []struct {
			Title   string  `json:"title"`
			Type    string  `json:"type"`
			Targets []query `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Name       string `json:"name"`
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
	}
	assert.Must(t, json.Unmarshal([]byte(read(t, "contrib", "grafana", "holdfast.json")), &board))
	all := map[string][]string{}
	for _, p := range board.Panels {
		assert.False(t, p.Type != "row" && len(p.Targets) == 0, "the panel %q has no query", p.Title)
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], q.Expr)
		}
	}
	for _, v := range board.Templating.List {
		if v.Definition != "" {
			all["variable "+v.Name] = []string{v.Definition}
		}
	}
	return all
}

// unknown returns the names in a query that no scrape has: of metrics, of labels, and of
// values that are compared with a label.
func (s *scraped) unknown(query, words string) (names []string) {
	for _, name := range ownName.FindAllString(query, -1) {
		if s.names[name] == nil && s.values[name] == nil {
			names = append(names, name)
		}
	}
	for _, m := range matcher.FindAllStringSubmatch(query, -1) {
		for value := range strings.SplitSeq(m[2], "|") {
			if value != "" && !s.values[m[1]][value] && !strings.Contains(words, "`"+value+"`") {
				names = append(names, fmt.Sprintf("%s=%q", m[1], value))
			}
		}
	}
	return names
}

// Every metric, every label and every value that a panel or an alert names is in a scrape
// of a real run, or, for values of bad outcomes, on the page.
func TestEveryNameOfThePanelsAndAlertsExists(t *testing.T) {
	s, words := scrape(t, "prom").with(scrape(t, "serve")), read(t, "docs", "observability.md")
	used := map[string]bool{}
	check := func(where, query string) {
		t.Helper()
		names := s.unknown(query, words)
		assert.True(t, len(names) == 0, "%s names %v, which no scrape has", where, names)
		for _, name := range ownName.FindAllString(query, -1) {
			used[name] = true
		}
	}
	boards := expressions(t)
	for title, queries := range boards {
		for _, q := range queries {
			check("the panel "+title, q)
		}
	}
	var rules []string
	for line := range strings.Lines(read(t, "contrib", "prometheus", "alerts.yml")) {
		if !strings.Contains(line, "runbook_url") && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			rules = append(rules, line)
		}
	}
	check("an alert", strings.Join(rules, ""))
	check("a test of an alert", read(t, "contrib", "prometheus", "alerts_test.yml"))
	assert.True(t, len(boards) >= 20 && len(used) >= 20,
		"only %d panels and %d names were compared", len(boards), len(used))
	// The check itself: names that nothing has are found.
	for _, wrong := range []string{
		"rate(holdfast_gone_total[5m])", `holdfast_held{holdfast_color="red"}`, `holdfast_held{holdfast_mode="odd"}`,
	} {
		assert.True(t, len(s.unknown(wrong, words)) != 0, "%s has no unknown name", wrong)
	}
	for _, name := range metricsOf(s) {
		assert.False(t, !used[name] && !used[name+"_bucket"] && !used[name+"_count"],
			"no panel and no alert uses %s", name)
	}
}

// metricsOf returns the metrics of a scrape, as its lines of types name them.
func metricsOf(s *scraped) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (holdfast_\w+) `).FindAllStringSubmatch(s.text, -1) {
		names = append(names, m[1])
	}
	return names
}

// promtool runs a command of promtool, from PATH or from where make puts it.
func promtool(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		own, absErr := filepath.Abs(filepath.Join(repository, "bin", "promtool"))
		if tool, err = exec.LookPath(own); errors.Join(err, absErr) != nil {
			t.Fatalf("there is no promtool, neither on PATH nor in bin: run sh scripts/promtool.sh (%v)", err)
		}
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	text, err := cmd.CombinedOutput()
	assert.MustTrue(t, err == nil, "promtool %s: %v\n%s", strings.Join(args, " "), err, text)
	return string(text)
}

func TestPromtoolAcceptsTheAlerts(t *testing.T) {
	dir := filepath.Join(repository, "contrib", "prometheus")
	n := len(alertLine.FindAllString(read(t, "contrib", "prometheus", "alerts.yml"), -1))
	out := promtool(t, dir, "", "check", "rules", "alerts.yml")
	assert.True(t, strings.Contains(out, fmt.Sprint(n, " rules found")),
		"promtool does not find %d rules: %s", n, out)
	out = promtool(t, dir, "", "test", "rules", "alerts_test.yml")
	assert.True(t, strings.Contains(out, "SUCCESS"), "%v", out)
}

// grafana replaces what Grafana replaces in a query.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".*", "$instance", ".*")

// Prometheus can read every query of the dashboard, each as the rule of a file.
func TestPromtoolAcceptsTheQueriesOfTheDashboard(t *testing.T) {
	var rules []string
	for title, queries := range expressions(t) {
		if strings.HasPrefix(title, "variable ") {
			continue
		}
		for _, q := range queries {
			rule, err := json.Marshal(map[string]string{
				"record": fmt.Sprint("query", len(rules)), "expr": grafana.Replace(q),
			})
			assert.Must(t, err)
			rules = append(rules, "  - "+string(rule)+"\n")
		}
	}
	dir := t.TempDir()
	slices.Sort(rules)
	text := "groups:\n- name: dashboard\n  rules:\n" + strings.Join(rules, "")
	assert.Must(t, os.WriteFile(filepath.Join(dir, "queries.yml"), []byte(text), 0o600))
	out := promtool(t, dir, "", "check", "rules", "queries.yml")
	assert.True(t, strings.Contains(out, fmt.Sprint(len(rules), " rules found")) && len(rules) >= 30,
		"promtool checked not all of %d queries: %s", len(rules), out)
}

// What promtool says about a scrape: names, units and help texts.
func TestPromtoolAcceptsAScrape(t *testing.T) {
	promtool(t, "", scrape(t, "prom").text, "check", "metrics")
	promtool(t, "", scrape(t, "serve").text, "check", "metrics")
}
