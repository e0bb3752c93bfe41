// Package observe has the tests of the observers on a real server. They compare a scrape of
// each with the dashboard, the alerts and the page that name its metrics.
package observe
