"use strict";
(() => {
  const MOST = 600;
  const PAGE = 4096;
  const byId = (id) => document.getElementById(id);
  const count = (n) => Math.round(n).toLocaleString("en");
  const percent = (n) => (n === null || n === undefined ? "–" : n.toFixed(1) + " %");
  const bytes = Charts.bytes;
  const ms = (us) => {
    if (us < 1000) return us.toFixed(0) + " µs";
    return (us / 1000).toFixed(us < 100000 ? 1 : 0) + " ms";
  };
  // Commands with a place of their own on the page; the others get forms.
  const PLACED = ["set", "scrub", "fail", "replace", "nvs-replace"];
  let commands = [];
  let points = [];
  let last = null;
  let token = "";
  let lastEvent = 0;
  let heard = 0;

  function put(id, text) {
    const element = byId(id);
    if (element.textContent !== text) element.textContent = text;
  }

  function header(sample) {
    const s = sample.status;
    document.title = s.name + ": " + s.state;
    put("name", s.name);
    put("state", s.state);
    byId("state").dataset.state = s.state;
    put(
      "about",
      "Level " + s.level + ", " + bytes(s.volume_bytes) + " · policy " + s.policy + " · rate " +
        s.rate + " · acknowledged by " + s.ack + " · up " + time(s.uptime_s),
    );
    put("says", sample.says);
    const failed = s.devices.some((d) => d.state === "failed");
    const bad = ["stopped", "no-nvs", "inconsistent"].includes(s.state);
    byId("says").classList.toggle("alarm", bad || failed);
    byId("says").classList.toggle("warning", sample.says.startsWith("Cache full"));
  }

  function time(seconds) {
    const s = Math.round(seconds);
    if (s < 120) return s + " s";
    if (s < 7200) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " days";
  }

  function tiles(sample) {
    const s = sample.status;
    const p = sample.point;
    const [low, high] = sample.thresholds;
    put("occupancy", percent(p.occupancy));
    byId("fill").style.width = Math.min(100, p.occupancy) + "%";
    byId("fill").classList.toggle("high", p.occupancy >= high);
    byId("low").style.left = low + "%";
    byId("high").style.left = high + "%";
    put(
      "occupancy-note",
      bytes(s.occupancy_pages * PAGE) + " of " + bytes(s.nvs_pages * PAGE) + "; destaging from " +
        low + " %, at full depth from " + high + " %",
    );
    put("writes", count(p.writes) + "/s");
    const times = (us) => (us ? "median " + ms(us[0]) + ", 99 % " + ms(us[1]) : "none just now");
    const waiting = s.writes_waiting ? "; " + count(s.writes_waiting) + " wait" : "";
    put("writes-note", times(p.write_us) + waiting);
    put("reads", count(p.reads) + "/s");
    put("reads-note", times(p.read_us));
    put("hits", percent(p.write_hits));
    const cache = s.read_cache ? ", with the read cache " + percent(p.cache_hits) : "";
    put("hits-note", "of pages written; reads " + percent(p.read_hits) + cache);
    put("destages", count(p.destages) + "/s");
    const memory = s.stripe_memory
      ? "; stripe memory " + bytes(s.stripe_memory.held_pages * PAGE) + " of " +
        bytes(s.stripe_memory.pages * PAGE)
      : "";
    put("destages-note", p.in_flight + " of " + sample.queue_depth + " writes in flight" + memory);
    put("wear", sample.nvs_wear === null ? "–" : sample.nvs_wear.toFixed(2) + " ×");
    const worn = sample.devices.filter((d) => d.kind === "nvs").map((d) => d.written_bytes);
    put("wear-note", worn.length ? bytes(Math.max(...worn)) + " written to it" : "no NVS");
  }

  // A row for each device; buttons keep their focus, so rows are made once and filled again.
  function devices(sample) {
    const body = byId("devices").tBodies[0];
    const rates = new Map(sample.devices.map((d) => [d.kind + d.number, d]));
    const list = sample.status.devices;
    while (body.rows.length > list.length) body.deleteRow(-1);
    list.forEach((device, i) => {
      const row = body.rows[i] || newRow(body);
      const rate = rates.get(device.kind + device.number) || {};
      const kinds = { nvs: "NVS ", spare: "Spare " };
      const name = (kinds[device.kind] || "Disk ") + device.number;
      const cells = row.cells;
      row.className = device.state === "failed" ? "failed" : "";
      cells[0].textContent = name;
      const badge = cells[1].firstChild;
      if (badge.textContent !== device.state) badge.textContent = device.state;
      badge.dataset.state = device.state;
      const busy = Math.round(rate.busy || 0);
      cells[2].querySelector("i").style.width = busy + "%";
      cells[2].querySelector(".busy > span").textContent = busy + " %";
      cells[3].textContent = rate.in_flight === undefined ? "–" : rate.in_flight;
      cells[4].textContent = rate.reads === undefined ? "–" : count(rate.reads);
      cells[5].textContent = rate.writes === undefined ? "–" : count(rate.writes);
      cells[6].textContent = device.cache ? device.cache + " / " + device.durability : "–";
      cells[7].textContent = device.device;
      button(cells[8].firstChild, device, name);
    });
  }

  function newRow(body) {
    const row = body.insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    row.append(head);
    for (let i = 1; i < 9; i += 1) row.insertCell();
    const badge = document.createElement("span");
    badge.className = "badge";
    row.cells[1].append(badge);
    row.cells[2].innerHTML =
      "<span class='busy'><span></span><b class='bar' aria-hidden='true'><i></i></b></span>";
    const change = document.createElement("button");
    change.type = "button";
    change.className = "small";
    row.cells[8].append(change);
    return row;
  }

  function button(button, device, name) {
    const failed = device.state === "failed";
    const member = device.kind === "member";
    const does = failed ? "Replace" : "Fail";
    const label = does + " " + name;
    if (button.textContent !== label) button.textContent = label;
    button.hidden = !failed && (!member || device.state !== "in use");
    button.disabled = !token;
    button.onclick = () => {
      if (!failed) {
        const text = question("fail", { disk: name + " (" + device.device + ")" });
        ask(text, "Give it up", false, () => post("fail", { disk: String(device.number) }));
      } else if (member) {
        const text = question("replace", { old: name });
        ask(text, "Replace", true, (path) => post("replace", { old: String(device.number), new: path }));
      } else {
        const text = question("nvs-replace", {});
        ask(text, "Replace", true, (path) =>
          post("nvs-replace", { old: device.device, new: path }),
        );
      }
    };
  }

  // The running scrub, rebuilds and resync, with the time to go.
  function works(sample) {
    const s = sample.status;
    const list = [];
    if (s.scrub && s.scrub.state === "running") {
      const wrong = s.scrub.inconsistent_rows + s.scrub.unreadable_rows + s.scrub.lost_rows;
      const note = wrong ? count(wrong) + " inconsistent rows" : "all rows consistent so far";
      list.push(["Scrub", s.scrub.rows_done, s.scrub.rows, s.scrub.seconds_to_go, note]);
    }
    if (s.mirror) {
      const name = "Resyncing NVS " + s.mirror.number;
      list.push([name, s.mirror.bytes_copied, s.mirror.bytes, null, ""]);
    }
    if (s.log_change) {
      const { pages_left, pages } = s.log_change;
      const note = count(pages_left) + " dirty pages left to destage";
      list.push(["Changing the NVS", pages - pages_left, pages, null, note]);
    }
    for (const rebuild of s.rebuilds) {
      const name = "Rebuilding disk " + rebuild.member;
      list.push([name, rebuild.bytes_done, rebuild.bytes, rebuild.to_go_s, rebuild.device]);
    }
    const box = byId("works");
    while (box.children.length > list.length) box.lastChild.remove();
    list.forEach(([name, done, all, seconds, note], i) => {
      let work = box.children[i];
      if (!work) {
        work = document.createElement("p");
        work.className = "work";
        work.append(document.createElement("progress"), document.createElement("span"));
        box.append(work);
      }
      const bar = work.firstChild;
      bar.setAttribute("aria-label", name);
      bar.max = all || 1;
      bar.value = done;
      const share = ((100 * done) / (all || 1)).toFixed(1) + " %";
      const togo = seconds === null || seconds === undefined ? "" : ", " + time(seconds) + " to go";
      work.lastChild.textContent = " " + name + ": " + share + togo + (note ? "; " + note : "");
    });
  }

  function events(sample) {
    const list = byId("events");
    for (const event of sample.events.filter((e) => e.number > lastEvent)) {
      const item = document.createElement("li");
      item.className = event.level;
      const when = document.createElement("time");
      when.dateTime = new Date(event.at_ms).toISOString();
      when.textContent = Charts.clock(event.at_ms);
      const text = document.createElement("span");
      text.textContent = (event.level === "alarm" ? "Alarm: " : "") + event.text;
      item.append(when, text);
      list.prepend(item);
      lastEvent = event.number;
    }
    while (list.children.length > 50) list.lastChild.remove();
    byId("no-events").hidden = list.children.length > 0;
  }

  function whatIf(sample) {
    const w = sample.what_if;
    byId("whatif").hidden = !w;
    if (!w) return;
    const notes = [
      w.seconds
        ? "The same writes over " + time(w.seconds) + ", each in a cache as full as the running one."
        : "Nothing to compare yet: not all policies had to destage.",
    ];
    if (w.one_in > 1) notes.push("One write group in " + w.one_in + " is followed.");
    if (w.dropped) notes.push(count(w.dropped) + " requests were missed.");
    put("whatif-note", notes.join(" "));
    const body = byId("whatif").querySelector("tbody");
    const rows = w.seconds ? [{ ...w.running, running: true }, ...w.shadows] : [];
    body.replaceChildren(
      ...rows.map((row) => {
        const line = document.createElement("tr");
        line.className = row.running ? "running" : "";
        const head = document.createElement("th");
        head.scope = "row";
        const key = document.createElement("i");
        key.className = "key";
        key.style.background = `var(${Charts.policyColor(row.policy)})`;
        head.append(key, row.policy + (row.running ? " (running)" : ""));
        line.append(head);
        const share = w.running.destages ? (100 * row.destages) / w.running.destages : null;
        const distance = row.mean_distance_pages;
        for (const text of [
          count(row.destages),
          share === null ? "–" : share.toFixed(1) + " %",
          row.destages ? (row.destaged_pages / row.destages).toFixed(1) : "–",
          distance === null ? "–" : count(distance),
          row.pages_written ? percent((100 * row.page_hits) / row.pages_written) : "–",
        ])
          line.insertCell().textContent = text;
        return line;
      }),
    );
  }

  function show(sample) {
    last = sample;
    points.push(sample.point);
    if (points.length > MOST) points.splice(0, points.length - MOST);
    header(sample);
    tiles(sample);
    devices(sample);
    works(sample);
    events(sample);
    whatIf(sample);
    for (const id of ["policy", "rate"]) {
      const input = byId(id);
      if (!input.dataset.touched && document.activeElement !== input) {
        input.value = sample.status[id];
      }
    }
    if (document.visibilityState === "visible") Charts.draw(points, sample, false);
  }

  // Asks before anything is changed. `device`: the answer names a new device.
  function ask(text, yes, device, then) {
    const dialog = byId("confirm");
    put("confirm-text", text);
    put("confirm-yes", yes);
    byId("confirm-device").hidden = !device;
    byId("new-device").value = "";
    byId("new-device").required = device;
    dialog.returnValue = "";
    dialog.onclose = () => {
      if (dialog.returnValue === "yes") then(byId("new-device").value.trim());
    };
    dialog.showModal();
  }

  async function post(command, body) {
    const box = byId("answer");
    box.classList.remove("error");
    box.textContent = "Asking…";
    try {
      const headers = {
        "content-type": "application/json",
        authorization: "Bearer " + token,
      };
      const options = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch("/api/" + command, options);
      const said = await response.json();
      if (response.status === 401) lock();
      if (!response.ok) throw new Error(said.error || response.statusText);
      box.textContent = said.note ? "Started (continuing in the background)." : "Done.";
      if (said.reply !== undefined) box.textContent = JSON.stringify(said.reply);
    } catch (error) {
      box.classList.add("error");
      box.textContent = "Not done: " + error.message;
    }
  }

  function lock() {
    token = "";
    byId("changes").disabled = true;
    if (last) devices(last);
  }

  // The server checks the token before the page offers anything.
  async function unlock() {
    token = byId("token").value.trim();
    byId("token").value = "";
    if (!token) {
      lock();
      put("answer", "Enter the token.");
      return;
    }
    await post("unlock", {});
    if (byId("answer").classList.contains("error")) return lock();
    put("answer", "Changes are unlocked on this page.");
    byId("changes").disabled = false;
    if (last) devices(last);
  }

  function changes() {
    byId("unlock").addEventListener("submit", (event) => {
      event.preventDefault();
      unlock();
    });
    for (const id of ["policy", "rate"]) {
      byId(id).addEventListener("input", () => (byId(id).dataset.touched = "yes"));
    }
    byId("set").addEventListener("submit", (event) => {
      event.preventDefault();
      const policy = byId("policy").value.trim();
      const rate = byId("rate").value.trim();
      const text = question("set", { policy, rate });
      ask(text, "Set", false, async () => {
        await post("set", { policy, rate });
        delete byId("policy").dataset.touched;
        delete byId("rate").dataset.touched;
      });
    });
    byId("scrub").addEventListener("click", () => {
      const repair = byId("repair").checked;
      const text = question("scrub", {}) + (repair ? " Inconsistent rows are repaired." : "");
      ask(text, "Start", false, () => post("scrub", { repair }));
    });
    byId("scrub-stop").addEventListener("click", () => {
      ask("Stop the scrub?", "Stop", false, () => post("scrub", { stop: true }));
    });
  }

  // What the page asks before a command.
  function question(name, values) {
    const known = commands.find((command) => command.name === name);
    const text = known ? known.question : "Are you sure?";
    return text.replace(/\{([a-z-]+)\}/g, (_, key) => values[key] || "");
  }

  function input(command, argument) {
    const id = command.name + "-" + argument.name;
    const label = document.createElement("label");
    label.htmlFor = id;
    label.textContent = argument.name;
    label.title = argument.help;
    const field = document.createElement(argument.choices.length ? "select" : "input");
    field.id = id;
    if (argument.kind === "flag") field.type = "checkbox";
    if (argument.kind === "choice" && !argument.required) {
      field.append(document.createElement("option"));
    }
    field.required = argument.required;
    for (const choice of argument.choices) {
      const option = document.createElement("option");
      option.textContent = choice;
      field.append(option);
    }
    return [label, field];
  }

  // The arguments that a form has; fields left empty are left out.
  function values(command) {
    const found = {};
    for (const argument of command.arguments) {
      const field = byId(command.name + "-" + argument.name);
      const text = field.value.trim();
      if (argument.kind === "flag") found[argument.name] = field.checked;
      else if (text) found[argument.name] = argument.kind === "bytes" ? Number(text) : text;
    }
    return found;
  }

  // A form for a command, made from the server's list.
  function form(command) {
    const form = document.createElement("form");
    form.className = "row";
    form.append(...command.arguments.flatMap((argument) => input(command, argument)));
    const button = document.createElement("button");
    button.id = command.name;
    button.textContent = command.name[0].toUpperCase() + command.name.slice(1).replace(/-/g, " ");
    const help = document.createElement("small");
    help.className = "quiet";
    help.textContent = command.help;
    form.append(button, help);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = values(command);
      const give = () => post(command.name, given);
      if (command.changes) ask(question(command.name, given), "Yes", false, give);
      else give();
    });
    return form;
  }

  async function choices() {
    const known = await (await fetch("/api/choices")).json();
    commands = known.commands;
    const others = commands.filter((command) => !PLACED.includes(command.name));
    byId("commands").replaceChildren(...others.map(form));
    for (const [id, names] of [
      ["policies", known.policies],
      ["rates", known.rates],
    ]) {
      byId(id).replaceChildren(
        ...names.map((name) => {
          const option = document.createElement("option");
          option.value = name;
          return option;
        }),
      );
    }
  }

  function linked(text, lost) {
    put("link", text);
    byId("link").classList.toggle("lost", lost);
  }

  async function begin() {
    Charts.build(byId("figures"));
    changes();
    choices().catch(() => {});
    try {
      points = await (await fetch("/api/history")).json();
    } catch {
      points = [];
    }
    const stream = new EventSource("/events");
    stream.onmessage = (event) => {
      heard = Date.now();
      linked("live", false);
      show(JSON.parse(event.data));
    };
    stream.onerror = () => linked("connection lost: reconnecting", true);
    setInterval(() => {
      if (heard && Date.now() - heard > 5000) linked("no data for 5 s", true);
    }, 1000);
    const again = () => last && Charts.draw(points, last, true);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    document.addEventListener("visibilitychange", again);
  }

  begin();
})();
