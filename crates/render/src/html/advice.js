(() => {
  const { axis, byId, css, line, logarithmic, plain, reference } = Charts;
  const { advice, verdicts, looks } = JSON.parse(byId("data").textContent);

  // The best thresholds of each policy and size, by the run that decides.
  const best = new Map();
  for (const run of verdicts) {
    if (run.ratio === null) continue;
    const sizes = best.get(run.policy) || new Map();
    best.set(run.policy, sizes);
    const rank = (r) => (r.reached ? 0 : 1e9) + r.ratio;
    const other = sizes.get(run.nvs_pages);
    if (!other || rank(run) < rank(other)) sizes.set(run.nvs_pages, run);
  }
  const ordered = (policy) => [...best.get(policy).values()].sort((a, b) => a.nvs_pages - b.nvs_pages);
  const policies = [...best.keys()];
  const curve = [...new Set(advice.curve.map((p) => p.policy))];
  const all = [...best.values()].flatMap((sizes) => [...sizes.keys()]);

  function sizeAxis(sizes) {
    const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
    // All sizes where there are few, or over few doublings, else powers of two.
    const distinct = [...new Set(sizes)].sort((a, b) => a - b);
    const few = distinct.length <= 5 || most < 8 * least;
    const ticks = few ? distinct : [];
    for (let at = 2 ** Math.floor(Math.log2(least)); !few && at <= 2 * most; at *= 2)
      ticks.push(at);
    const every = Math.ceil(ticks.length / 5);
    const shown = ticks.filter((_, i) => i % every === 0);
    const text = (n) => (n >= 1024 ? Number((n / 1024).toPrecision(3)) + " Ki" : String(n));
    return axis("NVS (pages)", { type: "log", tickvals: shown, ticktext: shown.map(text) });
  }

  function bySize(y, label, extra, references, hover) {
    const traces = policies.map((policy) => {
      const runs = ordered(policy);
      const drawn = line(looks[policy], policy, runs.map((r) => r.nvs_pages), runs.map(y), {
        customdata: runs.map((r) =>
          plain(r.thresholds + " %, " + (r.reached ? "reached" : r.why || "missed")),
        ),
        hovertemplate: "%{x:,} pages: " + hover + "<br>%{customdata}",
      });
      const open = drawn.marker.symbol + "-open";
      drawn.marker.symbol = runs.map((r) => (r.why ? open : drawn.marker.symbol));
      return drawn;
    });
    return {
      traces,
      key: label,
      layout: {
        xaxis: sizeAxis(all),
        yaxis: axis(label, extra),
        shapes: references.map((r) => r.shape),
        annotations: references.map((r) =>
          extra.type === "log" ? { ...r.note, y: Math.log10(r.note.y) } : r.note,
        ),
        hovermode: "closest",
      },
    };
  }

  function goal() {
    const share = (r) => 100 * Math.max(r.ratio, 1e-4);
    const values = [...best.values()].flatMap((sizes) => [...sizes.values()].map(share));
    const wide = Math.max(...values) > 1000;
    const scale = wide ? logarithmic([...values, 100]) : { rangemode: "tozero", tickformat: "," };
    const lines = [reference(100, "goal " + advice.goal)];
    return bySize(share, "Figure (% of its limit)", scale, lines, "%{y:,.0f} % of the limit");
  }

  const percent = { rangemode: "tozero", tickformat: "," };
  const stalls = () =>
    bySize((r) => 100 * r.stalled_share, "Stalled writes (%)", percent, [], "%{y:.2f} % stalled");
  const busy = () =>
    bySize((r) => 100 * r.disk_busy, "Busiest disk (%)", percent, [], "%{y:.1f} % busy");

  // The parameters of a policy are in the table, unless it was tried with several.
  const named = (policy) => {
    const own = policy.split(":")[0];
    return curve.filter((other) => other.split(":")[0] === own).length > 1 ? policy : own;
  };

  function work() {
    const traces = curve.map((policy) => {
      const points = advice.curve.filter((p) => p.policy === policy);
      return line(
        looks[policy],
        named(policy),
        points.map((p) => p.nvs_pages),
        points.map((p) => p.destaged_per_page),
        { hovertemplate: "%{x:,} pages: %{y:.3f}" },
      );
    });
    const shapes = [];
    if (advice.answer) {
      const x = advice.answer.nvs_pages;
      const stroke = { color: css("--muted"), width: 1.2, dash: "dash" };
      shapes.push({ type: "line", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: stroke });
    }
    return {
      traces,
      key: "work",
      layout: {
        xaxis: sizeAxis(advice.curve.map((p) => p.nvs_pages)),
        yaxis: axis("Pages destaged / written", percent),
        shapes,
        hovermode: "closest",
      },
    };
  }

  const charts = { goal, stalls, busy, work };
  function drawAll() {
    for (const [id, chart] of Object.entries(charts)) Charts.show(byId(id), chart(), true);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
