package series

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"paceline.dev/operator/decide"
)

// The page lists the rows of the master's own table, so both sides have the same names.
func TestTheRowsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	line := regexp.MustCompile("(?m)^\\| `paceline_(\\w+)(?:\\{\\w+\\})?` \\| (\\w+) \\| (.*) \\|$")
	for _, found := range line.FindAllStringSubmatch(string(page), -1) {
		documented[found[1]] = found[2] + ": " + found[3]
	}
	for _, row := range rows {
		name, text := row.name, "gauge: "+row.help
		if row.isCounter {
			name, text = name+"_total", "counter: "+row.help
		}
		if row.label != "" {
			text += "; " + row.label + ": " + strings.Join(row.values, ", ")
		}
		if documented[name] != text {
			t.Errorf("%s is documented as\n%s\nand not as\n%s", name, documented[name], text)
		}
		delete(documented, name)
	}
	// What is left is of single ranks, or of the master's own work.
	for _, name := range []string{"step", "rank_seconds", "checkpoint_ok", "restarts_total"} {
		if _, isLeft := documented[name]; isLeft {
			t.Errorf("paceline_%s is not exported", name)
		}
	}
}

func registered(t *testing.T, jobs ...Job) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(New(func() []Job { return jobs })); err != nil {
		t.Fatal(err)
	}
	return registry
}

func TestEachJobHasItsSeries(t *testing.T) {
	registry := registered(t, Job{Namespace: "a", Name: "train", HasBegun: true, IsHeard: true,
		Wanted: 4, Pending: 1, Measures: []decide.Measure{{Name: "restarts", Value: 3},
			{Name: "rank_seconds", Of: "hang", Value: 0.5}, {Name: "step", Value: -1}}},
		Job{Namespace: "b", Name: "train", HasBegun: true, Wanted: 2},
		Job{Namespace: "b", Name: "queued", Wanted: 1})
	want := `
# HELP paceline_operator_master_heard 1 while the operator is connected to the job's master; of jobs that have begun
# TYPE paceline_operator_master_heard gauge
paceline_operator_master_heard{job="train",namespace="a"} 1
paceline_operator_master_heard{job="train",namespace="b"} 0
# HELP paceline_operator_nodes_wanted nodes that the job goes for, without spares
# TYPE paceline_operator_nodes_wanted gauge
paceline_operator_nodes_wanted{job="queued",namespace="b"} 1
paceline_operator_nodes_wanted{job="train",namespace="a"} 4
paceline_operator_nodes_wanted{job="train",namespace="b"} 2
# HELP paceline_rank_seconds time of all ranks' places by class, as in ` + "`paceline goodput`" +
		`; a class may lose time to another one when a failure shows that steps are lost
# TYPE paceline_rank_seconds gauge
paceline_rank_seconds{class="hang",job="train",namespace="a"} 0.5
# HELP paceline_restarts_total worlds formed after the first
# TYPE paceline_restarts_total counter
paceline_restarts_total{job="train",namespace="a"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"paceline_operator_master_heard", "paceline_operator_nodes_wanted", "paceline_rank_seconds",
		"paceline_restarts_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// A registry serves the series of all jobs, or an error.
func TestNonsenseOfOneJobSpoilsNoOther(t *testing.T) {
	registry := registered(t,
		Job{Namespace: "a", Name: "bad", Measures: []decide.Measure{{Name: "step", Value: 1},
			{Name: "step", Value: 2}, {Name: "step", Of: "x"}, {Name: "phase"},
			{Name: "phase", Of: "dreaming"}, {Name: "restarts_total"}, {Name: "go_goroutines"},
			{Name: "\xff"}, {Name: "rank_seconds", Of: "\xff"}}},
		Job{Namespace: "a", Name: "good", Measures: []decide.Measure{{Name: "step", Value: 7}}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
		if family.GetName() == "paceline_step" && (len(family.Metric) != 2 ||
			family.Metric[0].GetGauge().GetValue() != 1 || family.Metric[1].GetGauge().GetValue() != 7) {
			t.Errorf("steps: %v", family.Metric)
		}
	}
	if want := []string{"paceline_operator_nodes_pending", "paceline_operator_nodes_wanted",
		"paceline_step"}; !slices.Equal(names, want) {
		t.Errorf("families: %v", names)
	}
}
