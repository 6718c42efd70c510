// Package series exports the jobs' metrics: what their masters tell, under the names of
// docs/metrics.md and with the labels namespace and job.
//
// A master is a process of its user. So it cannot choose names, labels or types: what rows does not
// have is left out. One job that tells nonsense must not spoil the series of the others, which a
// registry serves all or not at all.
package series

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"paceline.dev/operator/decide"
)

// Job is one job that has not ended, as the operator knows it.
type Job struct {
	Namespace string
	Name      string
	// HasBegun: a master was heard since the job was made or resumed.
	HasBegun bool
	// IsHeard: the operator is connected to the master of the current term.
	IsHeard bool
	// Wanted is how many nodes the job goes for, without spares.
	Wanted int32
	// Pending is how many of all wished nodes do not run yet.
	Pending  int32
	Measures []decide.Measure
}

// What the operator itself knows of a job. Names as in docs/guides/kubernetes.md.
var (
	masterHeard = prometheus.NewDesc("paceline_operator_master_heard",
		"1 while the operator is connected to the job's master; of jobs that have begun",
		[]string{"namespace", "job"}, nil)
	nodesWanted = prometheus.NewDesc("paceline_operator_nodes_wanted",
		"nodes that the job goes for, without spares", []string{"namespace", "job"}, nil)
	nodesPending = prometheus.NewDesc("paceline_operator_nodes_pending",
		"nodes and spares that are wished for and do not run", []string{"namespace", "job"}, nil)
)

// place is where a measure belongs: a row, and the value of its label.
type place struct{ name, of string }

// Collector makes the series of the jobs whenever it is scraped.
type Collector struct {
	jobs   func() []Job
	descs  []*prometheus.Desc     // of rows
	places map[place]int          // index of the row
	types  []prometheus.ValueType // of rows
}

// New makes a collector of the jobs that `jobs` returns. It may be called from any goroutine.
func New(jobs func() []Job) *Collector {
	c := &Collector{jobs: jobs, places: map[place]int{}}
	for i, row := range rows {
		name, labels, values := "paceline_"+row.name, []string{"namespace", "job"}, []string{""}
		kind := prometheus.GaugeValue
		if row.isCounter {
			name, kind = name+"_total", prometheus.CounterValue
		}
		if row.label != "" {
			labels, values = append(labels, row.label), row.values
		}
		c.descs = append(c.descs, prometheus.NewDesc(name, row.help, labels, nil))
		c.types = append(c.types, kind)
		for _, of := range values {
			c.places[place{row.name, of}] = i
		}
	}
	return c
}

// Describe names all series, so that a registry refuses a second collector of them.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range slices.Concat(c.descs,
		[]*prometheus.Desc{masterHeard, nodesWanted, nodesPending}) {
		descs <- desc
	}
}

// Collect gives the series of all jobs.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, job := range c.jobs() {
		gauge := func(desc *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, job.Namespace,
				job.Name)
		}
		if job.HasBegun {
			heard := 0.0
			if job.IsHeard {
				heard = 1
			}
			gauge(masterHeard, heard)
		}
		gauge(nodesWanted, float64(job.Wanted))
		gauge(nodesPending, float64(job.Pending))
		c.collectMeasures(&job, metrics)
	}
}

func (c *Collector) collectMeasures(job *Job, metrics chan<- prometheus.Metric) {
	told := map[place]bool{} // a series that is told twice would be an error of the whole scrape
	for _, measure := range job.Measures {
		where := place{measure.Name, measure.Of}
		index, isKnown := c.places[where]
		if !isKnown || told[where] {
			continue
		}
		told[where] = true
		values := []string{job.Namespace, job.Name}
		if rows[index].label != "" {
			values = append(values, measure.Of)
		}
		metrics <- prometheus.MustNewConstMetric(c.descs[index], c.types[index], measure.Value,
			values...)
	}
}
