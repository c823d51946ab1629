(() => {
  const { COLORS, axis, bar, byId, checked, color, css, line, logarithmic, look } = Charts;
  const { plain, reference, short } = Charts;
  const data = JSON.parse(document.getElementById("data").textContent);
  if (!data.points.length) return;

  const DASH_LENGTHS = ["", "6 3", "2 3", "7 3 2 3", "11 3"];
  const MARKS = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "M-4-4H4V4H-4Z",
    "M0-5L5 4H-5Z",
    "M0-5L5 0L0 5L-5 0Z",
    "M0 5L5-4H-5Z",
    "M-1.5-5h3v3.5H5v3H1.5V5h-3V1.5H-5v-3h3.5Z",
    "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
  ];
  const NUMBERS = {
    textposition: "outside",
    textangle: 0,
    cliponaxis: false,
    constraintext: "none",
  };

  // A variant's place in the palette: a policy has the same in every chart.
  const lookOf = (v) => data.looks[v];
  const hidden = new Set();
  const at = new Map(data.points.map((p) => [p.variant + ":" + p.value, p]));
  const chosen = () => (byId("value") ? Number(byId("value").value) : 0);
  const point = (variant) => at.get(variant + ":" + chosen());
  const shown = () => data.variants.map((_, i) => i).filter((i) => !hidden.has(i));
  const along = (variant) =>
    data.values.map((_, i) => at.get(variant + ":" + i)).filter((p) => p !== undefined);

  const errors = (halves, i) => ({
    type: "data",
    array: halves,
    visible: halves.some((h) => h > 0),
    color: color(i),
    thickness: 1,
    width: 4,
  });

  function curve() {
    const log = checked("curve-log");
    const traces = shown().map((v) => {
      const points = along(v);
      const metric = (i) => points.map((p) => p.metrics[i]);
      return line(lookOf(v), data.variants[v], metric(0), metric(2), {
        error_y: errors(metric(3), lookOf(v)),
        customdata: points.map((p) => plain(data.values[p.value])),
        hovertemplate:
          "%{x:,.1f} I/O/s, %{y:,.2f} ms<br>" + plain(data.axis.label) + ": %{customdata}",
      });
    });
    const lines = data.levels.map((level) => reference(level, level + " ms"));
    const notes = lines.map((l) => (log ? { ...l.note, y: Math.log10(l.note.y) } : l.note));
    const scale = log ? logarithmic(data.points.map((p) => p.metrics[2])) : { rangemode: "tozero" };
    return {
      traces,
      key: "curve" + log,
      layout: {
        xaxis: axis("Throughput (I/O/s)", { rangemode: "tozero", tickformat: "," }),
        yaxis: axis("Mean response time (ms)", scale),
        shapes: lines.map((l) => l.shape),
        annotations: notes,
        hovermode: "closest",
      },
    };
  }

  function alongAxis() {
    const index = Number(byId("metric").value);
    const metric = data.metrics[index];
    const log = checked("along-log");
    const half =
      data.metrics[index + 1] && data.metrics[index + 1].name === "" && index < 3 ? index + 1 : -1;
    const place = (p) => (data.numbers ? data.numbers[p.value] : plain(data.values[p.value]));
    const traces = shown().map((v) => {
      const points = along(v);
      const rest = { hovertemplate: "%{y:,." + metric.decimals + "f} " + plain(metric.unit) };
      if (half > 0)
        rest.error_y = errors(
          points.map((p) => p.metrics[half]),
          lookOf(v),
        );
      return line(
        lookOf(v),
        data.variants[v],
        points.map(place),
        points.map((p) => p.metrics[index]),
        rest,
      );
    });
    const title = metric.unit ? metric.name + " (" + metric.unit + ")" : metric.name;
    const values = data.points.map((p) => p.metrics[index]);
    let x = { tickformat: "," };
    if (!data.numbers) x = { type: "category" };
    else if (data.axis.binary) {
      const text = data.numbers.map((n) => n.toLocaleString("en"));
      x = { type: "log", tickvals: data.numbers, ticktext: text };
    }
    return {
      traces,
      key: "along" + index + log,
      layout: {
        xaxis: axis(data.axis.label, x),
        yaxis: axis(title, log ? logarithmic(values) : { rangemode: "tozero", tickformat: "," }),
        hovermode: "x unified",
      },
    };
  }

  // An axis of names. Places are counted, so names that are alike when cut short stay apart.
  function names(list, box) {
    const narrow = box.clientWidth < 500;
    const cut = list.map((name) => plain(short(name, 24)));
    const text = narrow ? cut.map((name) => name.replace(/,? /g, "<br>")) : cut;
    return axis("", {
      tickvals: list.map((_, i) => i),
      ticktext: text,
      range: [-0.5, list.length - 0.5],
    });
  }

  // Numbers on bars, where there is room for them.
  const numbers = (count, box, form) =>
    box.clientWidth > 42 * count ? { ...NUMBERS, texttemplate: `%{y:${form}}` } : {};

  // One bar for each variant, each in its own colour.
  function single(box, index, title, extra, halves) {
    const metric = data.metrics[index];
    const variants = shown().filter((v) => point(v));
    const traces = variants.map((v, place) => {
      const rest = { hovertemplate: "%{y:,." + metric.decimals + "f} " + plain(metric.unit) };
      if (halves) rest.error_y = { ...errors([point(v).metrics[halves]], lookOf(v)), color: css("--ink") };
      else Object.assign(rest, numbers(variants.length, box, ".3~s"));
      return bar(lookOf(v), data.variants[v], [place], [point(v).metrics[index]], rest);
    });
    const x = names(
      variants.map((v) => data.variants[v]),
      box,
    );
    return {
      traces,
      key: chosen() + ":" + variants,
      layout: { xaxis: x, yaxis: axis(title, extra), hovermode: "closest", barmode: "overlay" },
    };
  }

  const throughput = (box) => single(box, 0, "Throughput (I/O/s)", { tickformat: "," }, 1);

  function distance(box) {
    const index = data.metrics.findIndex((m) => m.log);
    const scale = logarithmic(data.points.map((p) => p.metrics[index]));
    return single(box, index, "Mean destage distance (pages)", { ...scale, dtick: 1 });
  }

  // Bars of every variant side by side, for each of some names.
  function grouped(box, list, values, title, extra) {
    const variants = shown().filter((v) => point(v));
    const traces = variants.map((v) => {
      const rest = { customdata: list, hovertemplate: "%{customdata}: %{y:,.2f}" };
      Object.assign(rest, numbers(variants.length * list.length, box, ".3~r"));
      return bar(
        lookOf(v),
        data.variants[v],
        list.map((_, i) => i),
        values(point(v)),
        rest,
      );
    });
    return {
      traces,
      key: chosen() + JSON.stringify(extra),
      layout: {
        xaxis: names(list, box),
        yaxis: axis(title, extra),
        barmode: "group",
        hovermode: "closest",
      },
    };
  }

  function response(box) {
    const values = (p) => [2, 4, 5, 6, 7].map((i) => p.metrics[i]);
    const log = checked("response-log");
    const scale = log ? logarithmic(data.points.flatMap(values)) : { tickformat: "," };
    return grouped(box, ["Mean", "Median", "95 %", "99 %", "99.9 %"], values, "Response time (ms)", scale);
  }

  const hits = (box) =>
    grouped(box, data.hits, (p) => p.hits, "Hit ratio (%)", { rangemode: "tozero" });

  // The shares of `kind`, reads or writes, that took less than each time.
  function distribution(kind) {
    const variants = shown().filter((v) => point(v) && point(v)[kind].length);
    const traces = variants.map((v) => {
      const rest = { mode: "lines", hovertemplate: "%{y:.2f} % below %{x:,.3~r} ms" };
      const p = point(v);
      return line(lookOf(v), data.variants[v], p.below, p[kind], rest);
    });
    const scale = logarithmic(variants.flatMap((v) => point(v).below));
    return {
      traces,
      key: kind + chosen(),
      layout: {
        xaxis: axis("Response time (ms)", scale),
        yaxis: axis("Share of " + kind + " below it (%)", { range: [0, 101] }),
        hovermode: "closest",
      },
    };
  }

  function occupancy() {
    const lines = new Map();
    let warmup = 0;
    const traces = shown()
      .filter((v) => point(v))
      .map((v) => {
        const p = point(v);
        warmup = Math.max(warmup, p.warmup || 0);
        for (const t of p.thresholds)
          lines.set(t.name + t.level, reference(t.level, t.name + " " + t.level + " %"));
        const rest = { mode: "lines", hovertemplate: "%{y:.1f} %" };
        const trace = line(lookOf(v), data.variants[v], p.times, p.occupancy, rest);
        trace.line.width = 1.8;
        return trace;
      });
    const references = [...lines.values()];
    const shapes = references.map((l) => l.shape);
    if (warmup > 0) {
      const shade = {
        xref: "x",
        yref: "paper",
        x0: 0,
        x1: warmup,
        y0: 0,
        y1: 1,
        line: { width: 0 },
      };
      shapes.push({
        type: "rect",
        ...shade,
        fillcolor: css("--muted"),
        opacity: 0.12,
        layer: "below",
      });
    }
    return {
      traces,
      key: "occupancy" + chosen(),
      layout: {
        xaxis: axis("Time (s)", { tickformat: "," }),
        yaxis: axis("NVS occupancy (%)", { range: [0, 104] }),
        shapes,
        annotations: references.map((l) => l.note),
        hovermode: "x unified",
      },
    };
  }

  function disks(box) {
    const variants = shown().filter((v) => point(v));
    const places = variants.map((_, i) => i);
    const customdata = variants.map((v) => plain(data.variants[v]));
    const traces = data.disk_time.map((name, part) => {
      const values = variants.map((v) => point(v).disk_time[part]);
      // Colours that the first variants do not have: these are parts, not policies.
      const rest = { customdata, hovertemplate: "%{customdata}: %{y:.1f} %", showlegend: true };
      const trace = bar(part + 4, name, places, values, rest);
      if (name === "Idle") trace.marker = { color: css("--rule") };
      return trace;
    });
    return {
      traces,
      key: chosen() + ":" + variants,
      layout: {
        xaxis: names(
          variants.map((v) => data.variants[v]),
          box,
        ),
        yaxis: axis("Share of time (%)", { range: [0, 100] }),
        barmode: "stack",
        hovermode: "closest",
      },
    };
  }

  const charts = {
    curve,
    throughput,
    response,
    along: alongAxis,
    "distribution-reads": () => distribution("reads"),
    "distribution-writes": () => distribution("writes"),
    occupancy,
    hits,
    distance,
    disks,
  };

  function draw(id) {
    const box = byId(id);
    if (box) Charts.show(box, charts[id](box), id === "disks");
  }

  function drawAll() {
    const where = data.axis ? "At " + data.axis.name + " " + data.values[chosen()] : "";
    for (const place of document.querySelectorAll(".at")) place.textContent = where;
    for (const id of Object.keys(charts)) draw(id);
  }

  function sample(i) {
    const ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg");
    for (const [name, value] of [
      ["width", 34],
      ["height", 14],
      ["viewBox", "-17 -7 34 14"],
      ["aria-hidden", "true"],
    ]) {
      svg.setAttribute(name, value);
    }
    svg.style.color = "var(--s" + (i % COLORS) + ")";
    const stroke = document.createElementNS(ns, "path");
    stroke.setAttribute("d", "M-17 0H17");
    stroke.setAttribute("stroke", "currentColor");
    stroke.setAttribute("stroke-width", "2.2");
    stroke.setAttribute("stroke-dasharray", look(i, DASH_LENGTHS) || "none");
    const mark = document.createElementNS(ns, "path");
    mark.setAttribute("d", look(i, MARKS));
    mark.setAttribute("fill", "currentColor");
    svg.append(stroke, mark);
    return svg;
  }

  function chips() {
    data.variants.forEach((name, i) => {
      const label = document.createElement("label");
      label.className = "chip";
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(i);
        else hidden.add(i);
        for (const row of document.querySelectorAll('#points tr[data-variant="' + i + '"]'))
          row.hidden = !box.checked;
        drawAll();
      });
      const text = document.createElement("span");
      text.textContent = name;
      text.title = name;
      label.append(box, sample(lookOf(i)), text);
      byId("variants").append(label);
    });
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[1].cells];
    const key = (row, column) => {
      const cell = row.cells[column];
      const text = cell.dataset.sort === undefined ? cell.textContent : cell.dataset.sort;
      return { text, number: text === "" ? NaN : Number(text) };
    };
    heads.forEach((head, column) => {
      head.firstElementChild.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => ({ row, ...key(row, column) }));
        rows.sort((a, b) => {
          if (a.text === "" || b.text === "") return (a.text === "") - (b.text === "");
          const numeric = !isNaN(a.number) && !isNaN(b.number);
          const order = numeric
            ? a.number - b.number
            : a.text.localeCompare(b.text, "en", { numeric: true });
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows.map((r) => r.row));
      });
    });
  }

  chips();
  sortable(byId("points"));
  if (byId("metric")) {
    byId("metric").addEventListener("change", () => {
      const index = Number(byId("metric").value);
      const values = data.points.map((p) => p.metrics[index]).filter((v) => v > 0);
      byId("along-log").checked = Math.max(...values) > 60 * Math.min(...values);
    });
  }
  for (const id of ["value", "metric", "curve-log", "along-log", "response-log"]) {
    const control = byId(id);
    if (control) control.addEventListener("change", drawAll);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
